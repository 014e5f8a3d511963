"""The rules of `faregate.journals.states` as SQL that SQLite and PostgreSQL both read."""

from collections.abc import Iterable

from faregate.journals.states import (
    COLUMN_RULES,
    HAS_REASON,
    MAY_HAVE_REASON,
    TRANSITIONS,
    ColumnRule,
    RowState,
)


def _is_any(column: str, states: Iterable[RowState]) -> str:
    """Compare a column with states. Not with `IN`, for which SQLite fills a table at each write."""
    return f"({' OR '.join(f'{column} = {state.value!r}' for state in states)})"


def _check(rule: ColumnRule) -> str:
    null = "NULL" if rule.is_null else "NOT NULL"
    optional = "".join(f"state = {state.value!r} OR " for state in rule.optional_in)
    return f"{optional}({rule.column} IS {null}) = {_is_any('state', rule.states)}"


_MAY_HAVE_REASON, _HAS_REASON = (_is_any("state", states) for states in (MAY_HAVE_REASON, HAS_REASON))
_CHECKS = {
    "known_state": _is_any("state", RowState),
    **{rule.name: _check(rule) for rule in COLUMN_RULES},
    "stuck_for_a_reason": f"{_MAY_HAVE_REASON} OR (reason <> '') = {_HAS_REASON}",
}
CONSTRAINTS = ",\n".join(f"CONSTRAINT {name} CHECK ({check})" for name, check in _CHECKS.items())
"""For `CREATE TABLE`."""

UNFETCHED = f"state = {RowState.SETTLED.value!r} AND NOT delivered"
"""The rows that are paid and whose result the payer has not fetched."""

DELIVERED = f"state = {RowState.SETTLED.value!r} AND delivered"
"""The rows whose result was delivered, and which still have it."""

REMEMBERED = f"state = {RowState.PAID_NO_RESULT.value!r} AND delivered"
"""The rows whose result was delivered, and which have it no more."""

DROP_RESULT = (
    f"state = {RowState.PAID_NO_RESULT.value!r}, stamp = -1 - stamp, expires_at = forget_at, client = '', "
    "body = '', size = 0, request_line = NULL, payment_response = NULL, receipt = NULL, result = NULL"
)
"""The changes of `Row.drop_result`."""

OTHER_ENCODING = (
    f"state <> {RowState.UNPAID.value!r} "
    f"AND (expires_at IS NULL OR expires_at > %s OR state = {RowState.SETTLED.value!r}) "
    "ORDER BY transaction_id IS NULL LIMIT 1"
)
"""The rest of `RowStore.find_authorization`; its parameter is the time."""

IS_SETTLED = f"state = {RowState.SETTLED.value!r}"

FORBIDDEN_TRANSITION = " OR ".join(
    f"OLD.state = {state.value!r} AND NOT {_is_any('NEW.state', (state, *following))}"
    for state, following in TRANSITIONS.items()
)
"""The condition of a trigger on updates of `state`."""
