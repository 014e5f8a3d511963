"""The rules of `faregate.journals.states` as SQL that SQLite and PostgreSQL both read."""

from collections.abc import Iterable

from faregate.journals.states import (
    COLUMN_RULES,
    HAS_REASON,
    MAY_HAVE_REASON,
    PAID_NO_RESULT,
    SETTLED,
    TRANSITIONS,
    UNPAID,
    ColumnRule,
    RowState,
)


def _is_any(column: str, states: Iterable[RowState]) -> str:
    """Compare a column with states. Not with `IN`, for which SQLite fills a table at each write."""
    return f"({' OR '.join(f'{column} = {state.value!r}' for state in states)})"


def _build_check(rule: ColumnRule, row: str) -> str:
    null = "NULL" if rule.is_null else "NOT NULL"
    optional = "".join(f"{row}state = {state.value!r} OR " for state in rule.optional_in)
    return f"{optional}({row}{rule.column} IS {null}) = {_is_any(f'{row}state', rule.states)}"


def build_checks(row: str = "") -> dict[str, str]:
    """Build the condition of each rule for a row, by its name. In a trigger, `row` is "NEW."."""
    state = f"{row}state"
    has_reason = f"({row}reason <> '') = {_is_any(state, HAS_REASON)}"
    return {
        "known_state": _is_any(state, RowState),
        **{rule.name: _build_check(rule, row) for rule in COLUMN_RULES},
        "stuck_for_a_reason": f"{_is_any(state, MAY_HAVE_REASON)} OR {has_reason}",
    }


UNFETCHED = f"state = {SETTLED.value!r} AND NOT delivered"
"""The rows that are paid and whose result the payer has not fetched."""

DELIVERED = f"state = {SETTLED.value!r} AND delivered"
"""The rows whose result was delivered, and which still have it."""

REMEMBERED = f"state = {PAID_NO_RESULT.value!r} AND delivered"
"""The rows whose result was delivered, and which have it no more."""

DROP_RESULT = (
    f"state = {PAID_NO_RESULT.value!r}, stamp = -1 - stamp, expires_at = forget_at, client = '', "
    "body = '', size = 0, request_line = NULL, payment_response = NULL, receipt = NULL, result = NULL"
)
"""The changes of `Row.drop_result`."""

OTHER_ENCODING = (
    f"state <> {UNPAID.value!r} "
    f"AND (expires_at IS NULL OR expires_at > %s OR state = {SETTLED.value!r}) "
    "ORDER BY transaction_id IS NULL LIMIT 1"
)
"""The rest of `RowStore.find_authorization`; its parameter is the time."""

IS_SETTLED = f"state = {SETTLED.value!r}"

FORBIDDEN_TRANSITION = " OR ".join(
    f"OLD.state = {state.value!r} AND NOT {_is_any('NEW.state', (state, *following))}"
    for state, following in TRANSITIONS.items()
)
"""The condition of a trigger on updates of `state`."""
