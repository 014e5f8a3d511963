"""Real payments as a comparison with the chain reads them: without proofs, signatures and receipts."""

import json
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Integer, String, and_, bindparam, func, or_, select

from faregate.rules.records import Status
from faregate.service.database.clock import ACCOUNT
from faregate.service.database.engine import Database, Inserts
from faregate.service.database.schema import accounts, loose_payments, reconciliations
from faregate.service.database.transactions import OF_ID, T
from faregate.service.database.types import to_datetime, to_microseconds
from faregate.x402.tokens import Environment

BATCH: Final = 1000
_CREATED: Final = bindparam("created", type_=BigInteger())
_UNTIL: Final = bindparam("until", type_=BigInteger())


@dataclass(frozen=True, slots=True)
class PaymentRow:
    """A real payment. Addresses and hashes are in lower case; times are microseconds since 1970.

    `amount` is the most that is charged; `used_amount` what is, where the price follows the use.
    `settled_again` is the transaction by which it settled after its chain had lost the first.
    """

    account: int
    id: str
    created_at: int
    submitted_at: int | None
    finished_at: int | None
    final_status: str | None
    reconciling_at: int | None
    settling_at: int | None
    asset: str
    amount: int
    authorized_value: int
    authorized_to: str
    payer: str
    nonce: str
    valid_before: str
    transaction_hash: str | None
    from_block: int | None
    settled_again: str | None
    used_amount: int | None = None

    @property
    def settled_amount(self) -> int:
        """What the payment settles, in atomic units."""
        return self.amount if self.used_amount is None else self.used_amount

    @property
    def is_right_amount(self) -> bool:
        """Whether all that was authorized is settled, or a part where the price follows the use."""
        is_part = self.used_amount is not None
        return (
            self.settled_amount <= self.authorized_value if is_part else self.amount == self.authorized_value
        )

    @property
    def status(self) -> Status:
        if self.final_status is not None:
            return "succeeded" if self.final_status == "succeeded" else "failed"
        if self.reconciling_at is not None:
            return "reconciling"
        return "authorized" if self.settling_at is None else "settling"

    @property
    def authorization(self) -> tuple[str, str, str]:
        """What a token takes once: the token, the payer and the nonce."""
        return self.asset, self.payer, self.nonce


_COLUMNS: Final = (
    *(T[column.name] for column in fields(PaymentRow) if column.name not in ("asset", "settled_again")),
    func.lower(T.asset).label("asset"),
    loose_payments.c.transaction_hash.label("settled_again"),
)
SELECT_PAYMENT: Final = select(*_COLUMNS).outerjoin(
    loose_payments,
    (loose_payments.c.account == T.account) & (loose_payments.c.transaction == T.id),
)
_LIST: Final = (
    SELECT_PAYMENT.where(
        T.account == ACCOUNT,
        T.from_block.is_not(None),
        T.created_at < _UNTIL,
        or_(T.created_at > _CREATED, and_(T.created_at == _CREATED, T.id > bindparam("after"))),
    )
    .order_by(T.created_at, T.id)
    .limit(bindparam("most", type_=Integer()))
)
_FIND: Final = SELECT_PAYMENT.where(
    T.from_block.is_not(None),
    T.asset == bindparam("asset", type_=String()),
    T.payer == bindparam("payer", type_=String()),
    T.nonce == bindparam("nonce", type_=String()),
)
_FIND_BY_ID: Final = SELECT_PAYMENT.where(OF_ID)
_RECIPIENTS: Final = (
    select(T.authorized_to)
    .distinct()
    .where(T.account == ACCOUNT, T.from_block.is_not(None), T.created_at >= _CREATED)
)
_CREATION: Final = select(func.min(accounts.c.created_at)).where(
    accounts.c.id.in_(bindparam("accounts", expanding=True))
)
_RECORD: Final = Inserts(
    reconciliations,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["environment"],
        set_={"finished_at": insert.excluded.finished_at, "result": insert.excluded.result},
    ),
)
_RECORDED: Final = select(reconciliations).order_by(reconciliations.c.environment)


@dataclass(frozen=True, slots=True)
class RecordedReconciliation:
    """When the payments of an environment were last compared with the chain, and the result."""

    environment: Environment
    finished_at: datetime
    result: dict[str, Any]


def list_real_payments(
    database: Database, accounts: Iterable[int], created_from: int, until: int
) -> Generator[PaymentRow]:
    """List the payments created from the first moment to before the second, in batches of one account."""
    for account in accounts:
        created, after = created_from - 1, "~"
        while True:
            keys = {"of_account": account, "created": created, "until": until, "after": after, "most": BATCH}
            with database.read() as connection:
                rows = connection.execute(_LIST, keys).mappings().all()
            yield from (PaymentRow(**row) for row in rows)
            if len(rows) < BATCH:
                break
            created, after = rows[-1]["created_at"], rows[-1]["id"]


def find_payment(database: Database, asset: str, payer: str, nonce: str) -> PaymentRow | None:
    """Find the payment of any account that this authorization is for. `asset` is written as in the books."""
    with database.read() as connection:
        row = connection.execute(_FIND, {"asset": asset, "payer": payer, "nonce": nonce}).mappings().first()
    return None if row is None else PaymentRow(**row)


def find_payment_by_id(database: Database, account: int, transaction_id: str) -> PaymentRow | None:
    with database.read() as connection:
        keys = {"of_account": account, "of_transaction": transaction_id}
        row = connection.execute(_FIND_BY_ID, keys).mappings().first()
    return None if row is None else PaymentRow(**row)


def list_recipients(database: Database, accounts: Iterable[int], created_from: int) -> set[str]:
    """List the addresses to which payments since this moment were authorized."""
    ids: set[str] = set()
    with database.read() as connection:
        for account in accounts:
            keys = {"of_account": account, "created": created_from}
            ids.update(connection.execute(_RECIPIENTS, keys).scalars())
    return ids


def find_creation(database: Database, accounts: Sequence[int]) -> int | None:
    """Find when the first of these accounts was created (microseconds since 1970); None if there is none."""
    with database.read() as connection:
        created_at: int | None = connection.execute(_CREATION, {"accounts": accounts}).scalar_one()
    return created_at


def record_reconciliation(
    database: Database, environment: Environment, at: datetime, result: dict[str, Any]
) -> None:
    """Keep the result of a comparison, in place of the one before."""
    row = {"environment": environment, "finished_at": to_microseconds(at), "result": json.dumps(result)}
    with database.write_statement() as connection:
        connection.execute(_RECORD.get(connection), row)


def find_reconciliation(database: Database, environment: Environment) -> RecordedReconciliation | None:
    """Find the last comparison of this environment."""
    return next(
        (
            reconciliation
            for reconciliation in list_reconciliations(database)
            if reconciliation.environment == environment
        ),
        None,
    )


def list_reconciliations(database: Database) -> list[RecordedReconciliation]:
    """List the last comparison of each environment."""
    with database.read() as connection:
        rows = connection.execute(_RECORDED).all()
    return [
        RecordedReconciliation(row.environment, to_datetime(row.finished_at), json.loads(row.result))
        for row in rows
    ]
