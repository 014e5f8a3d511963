"""Authorizations: open transactions and their payers.

A payer's open transactions reserve its funds: those with all sellers of the database, because on a chain a
payer has one balance. A simulated ledger is each seller's own. Two calls at the same time would both find
the funds free, so they are counted once more when the transaction is created: PostgreSQL lets the calls of
one payer in one by one for that (`faregate_covers` of the tenth migration), SQLite every writer.

A payment that ended in between reserves nothing any more, but its money may have been in the balance that was
read before. So what the payer's payments took is summed twice, before the balance is read and when the
transaction is created, and the difference is spent too. Both sums begin at the same moment, which the first
chooses: only the rows tell what happened in between, so that no two clocks are compared.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.functions import aggregate_strings

from faregate.rules.clock import LAST_SECOND
from faregate.rules.payments import PaymentVerified, Reservation
from faregate.rules.records import AccessContext
from faregate.service.database.clock import ACCOUNT, STAMP
from faregate.service.database.engine import Database
from faregate.service.database.schema import payers, resource_versions, revisions, transactions
from faregate.service.database.statements import Statement
from faregate.service.database.transactions import CHANGING, PAYER_COLUMNS, T, hash_proof
from faregate.service.database.types import Amount, sum_amounts
from faregate.x402.models import SignedPayment

_COMMA: Final[Any] = literal_column("','", Text())
_COLON: Final[Any] = literal_column("':'", Text())
_CLOCK: Final = bindparam("clock", type_=BigInteger())
_SINCE: Final = bindparam("settled_since", type_=BigInteger())
_OF_PAYER: Final = (T.payer == bindparam("payer")) & (T.asset == bindparam("asset"))
_SHARES_FUNDS: Final = {
    True: _OF_PAYER & T.from_block.is_not(None),
    False: _OF_PAYER & (T.account == ACCOUNT),
}
"""Which transactions spend what a payer has, by whether they are on a chain."""
# Amounts are summed by Python: SQLite cannot add numbers of 30 digits.
_VALUE_TEXT: Final = cast(T.authorized_value, Text)


def _join_open(text: Any, *, on_chain: bool) -> Any:
    """Join this text of the transactions that reserve funds."""
    return (
        select(aggregate_strings(text, _COMMA))
        .where(
            _SHARES_FUNDS[on_chain],
            T.finished_at.is_(None),
            # A submitted payment may still settle after its authorization expired, so it stays reserved.
            or_(T.submitted_at.is_not(None), T.expires_at > _CLOCK),
        )
        .scalar_subquery()
    )


def _join_settled(*, on_chain: bool) -> Any:
    return (
        select(aggregate_strings(_VALUE_TEXT, _COMMA))
        .where(
            _SHARES_FUNDS[on_chain],
            T.final_status == literal_column("'succeeded'"),
            T.finished_at >= _SINCE,
        )
        .scalar_subquery()
    )


_MAX_ECHOED: Final = 8 * 1024
_PROOF: Final = select(T.id).where(T.account == ACCOUNT, T.proof_hash == bindparam("proof_hash"))
_AUTHORIZATION: Final = select(T.id).where(T.account == ACCOUNT, _OF_PAYER, T.nonce == bindparam("nonce"))


def _build_find_uses(*, on_chain: bool) -> Any:
    return select(
        _PROOF.scalar_subquery().label("by_proof"),
        _AUTHORIZATION.scalar_subquery().label("by_authorization"),
        _join_open(T.nonce + _COLON + _VALUE_TEXT, on_chain=on_chain).label("reservations"),
        _join_settled(on_chain=on_chain).label("settled"),
    )


_FIND_USES: Final = {kind: Statement(_build_find_uses(on_chain=kind)) for kind in (True, False)}
_GIVEN: Final = tuple(
    column
    for column in transactions.columns
    if column.name in ("from_block", "facilitator", "echoed")
    or (column.name != "created_at" and not column.nullable and column.server_default is None)
)
"""The columns that are written with the row. The others begin as null, or with their default."""
_VALUE: Final = bindparam("authorized_value", type_=Amount())
_FUNDS: Final = bindparam("funds", type_=Amount())
_SETTLED_BEFORE: Final = bindparam("settled_before", type_=Amount())


_PARTS: Final = {
    "payer": select(payers.c.id).where(payers.c.account == ACCOUNT, payers.c.address == bindparam("payer")),
    "revision": select(revisions.c.id).where(
        revisions.c.account == ACCOUNT, revisions.c.id == bindparam("revision")
    ),
    "version": select(resource_versions.c.resource).where(
        resource_versions.c.account == ACCOUNT,
        resource_versions.c.resource == bindparam("resource"),
        resource_versions.c.number == bindparam("resource_version"),
    ),
}
"""What a transaction refers to."""
_FIND_PARTS: Final = Statement(select(*(part.scalar_subquery().label(name) for name, part in _PARTS.items())))


def _build_insert(dialect: str, needed: Iterable[str], *, on_chain: bool) -> Any:
    """Build the INSERT of a transaction, which the database must have these parts for."""
    if dialect == "sqlite":
        insert: Any = sqlite.insert(transactions)
        reserved = _join_open(_VALUE_TEXT, on_chain=on_chain)
        settled = _join_settled(on_chain=on_chain)
        covers = func.faregate_covers(_FUNDS, _VALUE, reserved, settled, _SETTLED_BEFORE)
    else:
        insert = postgresql.insert(transactions)
        covers = func.faregate_covers(
            _FUNDS,
            _VALUE,
            ACCOUNT,
            bindparam("asset"),
            bindparam("payer"),
            _CLOCK,
            _SINCE,
            _SETTLED_BEFORE,
            literal_column("true" if on_chain else "false"),
        )
    given = [bindparam(column.name, type_=column.type) for column in _GIVEN]
    # An older copy of the database may lack what this process remembers: no list would show the row.
    row = select(*given, STAMP).where(covers, *(_PARTS[name].exists() for name in needed))
    names = [*(column.name for column in _GIVEN), "created_at"]
    # Inserts nothing if another request used the proof or the authorization meanwhile.
    return insert.from_select(names, row).on_conflict_do_nothing().returning(T.created_at, *CHANGING)


def _build_observe(insert: Any, created_at: Any, made: ColumnElement[bool] | None = None) -> Any:
    """Build the INSERT of the payer of a new transaction, which returns the one that is there."""
    given = {
        "account": ACCOUNT,
        "id": bindparam("payer_id", type_=payers.c.id.type),
        "address": bindparam("payer", type_=payers.c.address.type),
        "identifier": bindparam("identifier", type_=payers.c.identifier.type),
    }
    row = select(*given.values(), created_at)
    observed = insert.from_select([*given, "created_at"], row if made is None else row.where(made))
    # Of two first payments, the one that was stamped later may be written earlier.
    earlier = case(
        (observed.excluded.created_at < payers.c.created_at, observed.excluded.created_at),
        else_=payers.c.created_at,
    )
    return observed.on_conflict_do_update(
        index_elements=["account", "address"], set_={"created_at": earlier}
    ).returning(*PAYER_COLUMNS)


def _build_authorize_first(dialect: str, *, on_chain: bool) -> Any:
    insert = _build_insert(dialect, ("revision", "version"), on_chain=on_chain)
    if dialect == "sqlite":
        return insert
    made = insert.cte("made")
    observed = _build_observe(postgresql.insert(payers), made.c.created_at).cte("observed")
    return select(made, observed).join_from(made, observed, true())


_AUTHORIZE: Final = {
    kind: Statement(partial(_build_insert, needed=tuple(_PARTS), on_chain=kind)) for kind in (True, False)
}
"""Creates a transaction of a payer that is there, by whether it is on a chain."""
_AUTHORIZE_FIRST: Final = {
    kind: Statement(partial(_build_authorize_first, on_chain=kind)) for kind in (True, False)
}
"""Creates a transaction; on PostgreSQL, its payer too. On SQLite, `_OBSERVE` follows."""
_OBSERVE: Final = Statement(
    _build_observe(
        sqlite.insert(payers),
        T.created_at,
        (T.account == ACCOUNT) & (T.id == bindparam("id", type_=T.id.type)),
    )
)


class PayerCache:
    """Payers that this process has met: `PAYER_COLUMNS` by account and address.

    They stay, but for a `payer_created_at` that another first payment at the same time makes earlier.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._known: dict[tuple[int, str], dict[str, Any]] = {}

    def get(self, account: int, address: str) -> dict[str, Any] | None:
        return self._known.get((account, address))

    def put(self, account: int, payer: dict[str, Any]) -> None:
        """Remember a payer that is committed."""
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[account, payer["identifier"].lower()] = payer


@dataclass(frozen=True, slots=True)
class FoundReferences:
    """Whether the database has what a transaction refers to."""

    has_payer: bool
    has_price: bool


@dataclass(frozen=True, slots=True)
class UsedIds:
    """The transactions that used a proof and an authorization, and what open and ended ones spend."""

    by_proof: str | None
    by_authorization: str | None
    reservations: tuple[Reservation, ...]
    settled: int

    @property
    def reserved(self) -> int:
        return sum(reservation.value for reservation in self.reservations)


def find_uses(
    database: Database,
    account: int,
    asset: str,
    payment: SignedPayment,
    clock: int,
    settled_since: int,
    *,
    on_chain: bool,
) -> UsedIds:
    """Find what is known of the payment, in one statement.

    `clock` is the present in microseconds; payments that succeeded from `settled_since` on are summed. Those
    `on_chain` spend what the payer has with any seller.
    """
    keys = {
        "of_account": account,
        "asset": asset,
        "payer": payment.payer,
        "nonce": payment.nonce,
        "proof_hash": hash_proof(payment.header),
        "clock": clock,
        "settled_since": settled_since,
    }
    [uses] = database.query(_FIND_USES[on_chain], keys)
    reservations = _read_reservations(uses["reservations"])
    return UsedIds(uses["by_proof"], uses["by_authorization"], reservations, sum_amounts(uses["settled"]))


def find_references(database: Database, account: int, row: dict[str, Any]) -> FoundReferences:
    """Find whether the database has the payer, the revision and the resource of this new transaction."""
    [references] = database.query(_FIND_PARTS, {"of_account": account, **row})
    has_price = references["revision"] is not None and references["version"] is not None
    return FoundReferences(references["payer"] is not None, has_price)


def _read_reservations(joined: str | None) -> tuple[Reservation, ...]:
    """Read what SQL joined with commas; None if there were none."""
    pairs = (pair.split(":") for pair in (joined or "").split(",") if pair)
    return tuple(Reservation(nonce, int(value)) for nonce, value in pairs)


def authorize(
    database: Database, account: int, row: dict[str, Any], now: int, *, durable: bool = True
) -> dict[str, Any] | None:
    """Create an open transaction of a payer that is there, and return it. `durable` is as of a change.

    Returns None if another call was faster, or if `find_references` finds something missing. `row` has the
    columns, and what the funds are compared with: `funds`, `clock`, `settled_since` and `settled_before`.
    """
    return _authorize(database, _AUTHORIZE, account, row, now, durable=durable)


def authorize_first(
    database: Database,
    account: int,
    row: dict[str, Any],
    now: int,
    payer: dict[str, Any],
    *,
    durable: bool = True,
) -> dict[str, Any] | None:
    """Create an open transaction and its payer, both or none, and return them in one row.

    As `authorize`. `payer` has `payer_id` and `identifier`, for a payer that is not there yet.
    """
    then = _OBSERVE if database.is_sqlite else None
    return _authorize(database, _AUTHORIZE_FIRST, account, {**row, **payer}, now, then, durable=durable)


def _authorize(
    database: Database,
    statements: Mapping[bool, Statement],
    account: int,
    row: dict[str, Any],
    now: int,
    then: Statement | None = None,
    *,
    durable: bool,
) -> dict[str, Any] | None:
    values = {"account": account, **row}
    statement = statements[row["from_block"] is not None]
    rows = database.change(statement, {**values, "of_account": account, "now": now}, then, durable=durable)
    return {**values, **rows[0]} if rows else None


def build_row(
    context: AccessContext,
    version: int,
    payment: SignedPayment,
    verified: PaymentVerified,
    new_id: Callable[[str], str],
) -> dict[str, Any]:
    """Build the columns of a new transaction for this version of the resource."""
    resource = context.request.resource
    return {
        "id": new_id("txn"),
        "payment_request_id": new_id("prq"),
        "payer": payment.payer,
        "resource": context.listing.id,
        "resource_version": version,
        "revision": context.revision.id,
        "url": resource.url,
        "mime_type": resource.mime_type,
        "description": resource.description,
        "asset": context.terms.token.address,
        "amount": context.terms.amount,
        "pay_to": context.terms.pay_to,
        "max_timeout_seconds": context.terms.max_timeout_seconds,
        "proof_hash": hash_proof(payment.header),
        "authorized_to": payment.to,
        "authorized_value": payment.value,
        "valid_after": str(payment.valid_after),
        "valid_before": str(payment.valid_before),
        "expires_at": min(payment.valid_before, LAST_SECOND) * 1_000_000,
        "nonce": payment.nonce,
        "signature": payment.signature,
        "facilitator": payment.facilitator,
        "echoed": _write_echoed(payment),
        "from_block": verified.from_block,
    }


def _write_echoed(payment: SignedPayment) -> str | None:
    """Write what a facilitator may list the resource by; None if the payment says nothing of that."""
    echoed = payment.echoed
    text = json.dumps(echoed, separators=(",", ":")) if "extensions" in echoed else ""
    return text if 0 < len(text) <= _MAX_ECHOED else None
