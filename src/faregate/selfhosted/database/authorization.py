"""Authorizations: open transactions, and the payers whose they are."""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, bindparam, or_, select

from faregate.selfhosted.database.clock import ACCOUNT, NOW, STAMP
from faregate.selfhosted.database.engine import Database, Inserts
from faregate.selfhosted.database.schema import payers, transactions
from faregate.selfhosted.database.statements import Statement
from faregate.selfhosted.database.transactions import CHANGING, PAYER_COLUMNS, T, hash_proof, read_row
from faregate.selfhosted.database.types import to_datetime
from faregate.service.identifiers import Ids
from faregate.service.payments import PaymentVerified
from faregate.service.records import AccessContext
from faregate.x402.models import SignedPayment

_LAST_TIME: Final = 253_402_300_799
_RESERVED: Final = Statement(
    select(T.authorized_value).where(
        T.account == ACCOUNT,
        T.payer == bindparam("payer"),
        T.asset == bindparam("asset"),
        T.finished_at.is_(None),
        # A submitted payment may still settle after its authorization expired, so it stays reserved.
        or_(T.submitted_at.is_not(None), T.expires_at > NOW),
    )
)
_GIVEN: Final = tuple(
    column.name
    for column in transactions.columns
    if column.name != "created_at" and not column.nullable and column.server_default is None
)
_AUTHORIZE: Final = Statement(
    Inserts(
        transactions,
        # Whoever else used the proof or the authorization meanwhile was faster.
        lambda insert: (
            insert.values(created_at=STAMP).on_conflict_do_nothing().returning(T.created_at, *CHANGING)
        ),
    ).build,
    columns=(*_GIVEN, "from_block"),
)
_OBSERVE: Final = Inserts(
    payers,
    lambda insert: insert.values(created_at=STAMP).on_conflict_do_nothing().returning(*PAYER_COLUMNS),
)
_FIND_PAYER: Final = select(*PAYER_COLUMNS).where(
    payers.c.account == ACCOUNT, payers.c.address == bindparam("address")
)


class PayerCache:
    """Payers that this process has met: `PAYER_COLUMNS` by account and address. They never change."""

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


def sum_reserved(database: Database, account: int, asset: str, payer: str, now: int) -> int:
    """Sum what open transactions of this payer (lower case) reserve."""
    keys = {"of_account": account, "asset": asset, "payer": payer, "now": now}
    # Summed here: SQLite cannot add numbers of 30 digits.
    return sum(row["authorized_value"] for row in database.query(_RESERVED, keys))


def observe_payer(
    connection: Connection, account: int, identifier: str, now: int, ids: Ids
) -> dict[str, Any]:
    """Return the payer's columns; a payer is observed with its first transaction."""
    keys = {"of_account": account, "address": identifier.lower()}
    found = read_row(connection.execute(_FIND_PAYER, keys))
    if found is None:
        row = {"account": account, "id": ids("pyr", to_datetime(now)), "identifier": identifier}
        found = read_row(connection.execute(_OBSERVE.get(connection), {**row, **keys, "now": now}))
    if found is None:  # another process was faster
        found = read_row(connection.execute(_FIND_PAYER, keys))
    assert found is not None  # noqa: S101 - payers are never deleted
    return found


def authorize(database: Database, account: int, row: dict[str, Any], now: int) -> dict[str, Any] | None:
    """Create an open transaction, and return it; None if the proof or the authorization was used."""
    values = {"account": account, **row}
    made = database.change(_AUTHORIZE, {**values, "of_account": account, "now": now})
    return {**values, **made[0]} if made else None


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
        "expires_at": min(payment.valid_before, _LAST_TIME) * 1_000_000,
        "nonce": payment.nonce,
        "signature": payment.signature,
        "from_block": verified.from_block,
    }
