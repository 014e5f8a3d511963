"""The rows of attempts to settle: leases, what was signed and sent, and the nonces of the gas accounts.

This module decides who may make the next attempt, and when (`AttemptSchedule`). What an attempt does is in
`rules/settlement.py`, and in which thread in `service/settlement_workers.py`.

An attempt is in the database before anything is sent. Its number is the fencing token of its lease: once
another attempt has begun, the earlier one can neither record a signed transfer nor postpone. The answer to
what it has sent is still recorded, in its own row.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Integer, bindparam, case, func, insert, or_, select, update

from faregate.rules.payments import Attempt, SignedTransfer
from faregate.service.database.clock import ACCOUNT, NOW, STAMP
from faregate.service.database.engine import Database, DatabaseError, Inserts
from faregate.service.database.schema import attempts, gas_accounts, loose_payments, transactions
from faregate.service.database.statements import Statement
from faregate.service.database.transactions import (
    CHANGING,
    IS_OPEN,
    OF_ID,
    SUBMIT,
    StoredTransaction,
    T,
    read_row,
)
from faregate.service.database.types import to_datetime

MAX_NOTE: Final = 500
_SIGNED: Final = tuple(column.name for column in fields(SignedTransfer))
"""The columns of an attempt that are the fields of its signed transfer."""
_NUMBER: Final = bindparam("attempt", type_=Integer())
_NEXT: Final = bindparam("next", type_=BigInteger())
_UNTIL: Final = bindparam("until", type_=BigInteger())
_CLOCK: Final = bindparam("clock", type_=BigInteger())
"""The time of this machine. STAMP may be ahead of it; NOW is the same, except in `submit`."""
_IS_FREE: Final = or_(T.lease_until.is_(None), T.lease_until <= NOW)
_BEGIN: Final = (
    update(transactions)
    # Never before the seller has completed, never after the end, and not while it is parked.
    .where(OF_ID, T.submitted_at.is_not(None), T.finished_at.is_(None), T.parked_at.is_(None), _IS_FREE)
    .values(attempts=T.attempts + 1, lease_until=_UNTIL, plan=None)
    .returning(*CHANGING)
)
_OWNER: Final = bindparam("owner", type_=attempts.c.owner.type)
_COLUMNS: Final = ["account", "transaction", "number", "started_at", "owner"]
_WRITE_ROW: Final = insert(attempts).from_select(
    _COLUMNS, select(T.account, T.id, T.attempts, _CLOCK, _OWNER).where(OF_ID, IS_OPEN)
)


def _begin_and_write(begin: Any) -> Any:
    """Begin an attempt and insert its row in one statement, and so in one round trip.

    SQLite cannot, and has no round trips: there the statement and `_WRITE_ROW` follow each other.
    """
    begun = begin.returning(T.account, T.id).cte("begun").c
    row = select(begun.account, begun.id, begun.attempts, _CLOCK, _OWNER).where(begun.finished_at.is_(None))
    written = insert(attempts).from_select(_COLUMNS, row).cte("written")
    return select(*(begun[column.name] for column in CHANGING)).add_cte(written)


_BEGIN_AND_WRITE: Final = _begin_and_write(_BEGIN)
# With the outcome, in one commit. A transaction that has ended before keeps its end, and there is no attempt.
_SUBMIT_AND_BEGIN: Final = SUBMIT.values(
    attempts=case((IS_OPEN, T.attempts + 1), else_=T.attempts), lease_until=case((IS_OPEN, _UNTIL))
)
_BEGIN_AGAIN: Final = (
    # Its lease is in the row of the payment that succeeded and that the chain has lost (`reorg_records.py`).
    update(transactions).where(OF_ID).values(attempts=T.attempts + 1).returning(*CHANGING)
)
_WRITE_AGAIN: Final = insert(attempts).from_select(
    _COLUMNS, select(T.account, T.id, T.attempts, _CLOCK, _OWNER).where(OF_ID)
)
_BEGIN_ON_SERVER: Final = Statement(_BEGIN_AND_WRITE)
_BEGIN_ON_SQLITE: Final = Statement(_BEGIN)
_WRITE_ON_SQLITE: Final = Statement(_WRITE_ROW)
_SUBMIT_ON_SERVER: Final = Statement(_begin_and_write(_SUBMIT_AND_BEGIN))
_SUBMIT_ON_SQLITE: Final = Statement(_SUBMIT_AND_BEGIN)
_IS_DUE: Final = (
    T.next_attempt_at <= NOW,
    T.submitted_at.is_not(None),
    T.finished_at.is_(None),
    T.plan.is_(None),
    _IS_FREE,
)
_DUE_ACCOUNTS: Final = select(T.account).distinct().where(*_IS_DUE)
_DUE: Final = (
    select(T.id)
    .where(T.account == ACCOUNT, *_IS_DUE)
    .order_by(T.next_attempt_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_HISTORY: Final = (
    select(attempts)
    .where(
        attempts.c.account == ACCOUNT,
        attempts.c.transaction == bindparam("of_transaction"),
        attempts.c.number < _NUMBER,
    )
    .order_by(attempts.c.number)
)
_OF_ATTEMPT: Final = (
    (attempts.c.account == ACCOUNT)
    & (attempts.c.transaction == bindparam("of_transaction"))
    & (attempts.c.number == _NUMBER)
)
_RECORD_ANSWER: Final = Statement(
    update(attempts)
    .where(_OF_ATTEMPT)
    .values(
        note=bindparam("answer"),
        transaction_hash=func.coalesce(attempts.c.transaction_hash, bindparam("answered_hash")),
    )
)
_RECORD_SIGNED: Final = update(attempts).where(_OF_ATTEMPT)
_IS_LOOSE: Final = (
    select(loose_payments.c.account)
    .where(
        loose_payments.c.account == T.account,
        loose_payments.c.transaction == T.id,
        loose_payments.c.ended_at.is_(None),
    )
    .exists()
)
# Locks the row: no other attempt can begin between this look and the commit.
_LOCK_LATEST_ATTEMPT: Final = (
    select(T.attempts).where(OF_ID, or_(T.finished_at.is_(None), _IS_LOOSE)).with_for_update(of=transactions)
)
_POSTPONE: Final = (
    update(transactions)
    .where(OF_ID, T.finished_at.is_(None), T.attempts == _NUMBER)
    # Parked while this attempt ran: no other one begins.
    .values(lease_until=None, next_attempt_at=case((T.parked_at.is_(None), _NEXT)))
    .returning(*CHANGING)
)
_POSTPONE_AS: Final = {
    "settling": _POSTPONE.values(settling_at=func.coalesce(T.settling_at, STAMP)),
    "reconciling": _POSTPONE.values(reconciling_at=func.coalesce(T.reconciling_at, STAMP)),
}
_UPDATE_SUBMITTED: Final = (
    update(transactions)
    .where(OF_ID, T.submitted_at.is_not(None), T.finished_at.is_(None))
    .returning(*CHANGING)
)
_PARK: Final = _UPDATE_SUBMITTED.where(T.parked_at.is_(None)).values(
    parked_at=NOW, parked_reason=bindparam("reason"), next_attempt_at=None
)
_UNPARK: Final = _UPDATE_SUBMITTED.values(parked_at=None, next_attempt_at=_NEXT)
_GET_NONCE: Final = select(gas_accounts.c.next_nonce).where(
    gas_accounts.c.chain == bindparam("chain"), gas_accounts.c.address == bindparam("address")
)
# No row comes back for a nonce below the next free one: another worker took it.
_TAKE_NONCE: Final = Inserts(
    gas_accounts,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["chain", "address"],
        set_={"next_nonce": insert.excluded.next_nonce},
        where=gas_accounts.c.next_nonce < insert.excluded.next_nonce,
    ).returning(gas_accounts.c.next_nonce),
)
_LIST_ATTEMPTS: Final = (
    select(
        attempts.c.number,
        attempts.c.started_at,
        attempts.c.note,
        attempts.c.transaction_hash,
        attempts.c.sender,
        attempts.c.gas_nonce,
    )
    .where(attempts.c.account == ACCOUNT, attempts.c.transaction == bindparam("of_transaction"))
    .order_by(attempts.c.number.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class AttemptSchedule:
    """When a payment may be attempted again. Times in seconds.

    `lease` is how long an attempt may take; another one may then take the payment. A first attempt takes 22
    seconds at most. Most authorizations are valid for 60: the attempt of a process that died must be repeated
    within that time. An attempt without a result is tried again after `first_retry`, then after twice as long
    each time, up to `last_retry`.
    """

    lease: float = 30.0
    first_retry: float = 1.0
    last_retry: float = 300.0

    def get_retry(self, attempt: int) -> float:
        """Return how long after this attempt the next one begins."""
        return min(self.last_retry, self.first_retry * 2.0 ** min(attempt - 1, 30))


@dataclass(frozen=True, slots=True)
class AttemptLease:
    """The lease of an attempt that begins now: in microseconds of this machine's clock, and its process."""

    began_at: int
    until: int
    owner: str | None


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt as operators see it: what it was answered, never what it signed.

    `note` is the answer to what was sent, None if there was none. `sender` and `gas_nonce` are those of a
    transfer that the service signed itself.
    """

    number: int
    started_at: datetime
    note: str | None
    transaction_hash: str | None
    sender: str | None
    gas_nonce: int | None


def begin_attempt(
    database: Database, account: int, stored: StoredTransaction, lease: AttemptLease
) -> Attempt | None:
    """Begin an attempt; None while another one has the lease, and if it is not submitted, parked or ended."""
    values = _describe_beginning(account, stored, lease)
    if database.is_sqlite:
        rows = database.change(_BEGIN_ON_SQLITE, values, then=_WRITE_ON_SQLITE)
    else:
        rows = database.change(_BEGIN_ON_SERVER, values)
    if not rows:
        return None
    begun = stored.with_change(rows[0])
    if begun.row["attempts"] == 1:
        return _build_attempt(begun, ())
    # Read after the beginning: what an earlier attempt would sign from now on is refused.
    with database.read() as connection:
        return _build_attempt(begun, _read_history(connection, values, begun.row["attempts"]))


def submit(
    database: Database, account: int, stored: StoredTransaction, values: dict[str, Any], lease: AttemptLease
) -> tuple[StoredTransaction, Attempt | None] | None:
    """Record the outcome `values`, as `SUBMIT`, and begin the first attempt: both or none.

    None if there is an outcome already. There is no attempt if the transaction has ended before.
    """
    parameters = {**_describe_beginning(account, stored, lease), **values}
    if database.is_sqlite:
        rows = database.change(_SUBMIT_ON_SQLITE, parameters, then=_WRITE_ON_SQLITE)
    else:
        rows = database.change(_SUBMIT_ON_SERVER, parameters)
    if not rows:
        return None
    begun = stored.with_change(rows[0])
    return begun, None if begun.row["finished_at"] is not None else _build_attempt(begun, ())


def _describe_beginning(account: int, stored: StoredTransaction, lease: AttemptLease) -> dict[str, Any]:
    keys = {"of_account": account, "of_transaction": stored.id}
    now = lease.began_at
    return {**keys, "now": now, "clock": now, "until": lease.until, "owner": lease.owner}


def begin_due_attempt(
    connection: Connection, account: int, stored: StoredTransaction, lease: AttemptLease
) -> tuple[StoredTransaction, Attempt] | None:
    """As `begin_attempt`, in the transaction that has locked the payment with `find_due`."""
    keys = {"of_account": account, "of_transaction": stored.id}
    values = _describe_beginning(account, stored, lease)
    if connection.dialect.name == "sqlite":
        row = read_row(connection.execute(_BEGIN, values))
        if row is not None:
            connection.execute(_WRITE_ROW, values)
    else:
        row = read_row(connection.execute(_BEGIN_AND_WRITE, values))
    if row is None:
        return None
    begun = stored.with_change(row)
    return begun, _build_attempt(begun, _read_history(connection, keys, row["attempts"]))


def read_attempt(connection: Connection, account: int, stored: StoredTransaction) -> Attempt:
    """Read what all attempts so far know, without beginning one: to look at the chain with."""
    keys = {"of_account": account, "of_transaction": stored.id}
    return _build_attempt(stored, _read_history(connection, keys, stored.row["attempts"] + 1))


def begin_attempt_again(
    connection: Connection, account: int, stored: StoredTransaction, now: int
) -> tuple[StoredTransaction, Attempt]:
    """Begin an attempt of a payment that has succeeded, and that the caller has leased before."""
    keys = {"of_account": account, "of_transaction": stored.id}
    begun = stored.with_change(dict(connection.execute(_BEGIN_AGAIN, keys).mappings().one()))
    connection.execute(_WRITE_AGAIN, {**keys, "clock": now, "owner": None})
    return begun, _build_attempt(begun, _read_history(connection, keys, begun.row["attempts"]))


def _read_history(connection: Connection, keys: dict[str, Any], before: int) -> Sequence[Any]:
    return connection.execute(_HISTORY, {**keys, "attempt": before}).all()


def list_due_accounts(database: Database, now: int) -> frozenset[int]:
    """List the accounts that have payments whose next attempt is due."""
    with database.read() as connection:
        return frozenset(connection.execute(_DUE_ACCOUNTS, {"now": now}).scalars())


def find_due(connection: Connection, account: int, now: int, most: int) -> Sequence[str]:
    """Find payments whose next attempt is due, and lock them until the transaction ends.

    Rows that another worker has locked are skipped, so that workers do not wait for each other.
    """
    return connection.execute(_DUE, {"of_account": account, "now": now, "most": most}).scalars().all()


def record_signed(
    connection: Connection, account: int, stored: StoredTransaction, attempt: Attempt, signed: SignedTransfer
) -> bool:
    """Write down the transfer, and take its gas nonce; False if the nonce is taken.

    Raises `DatabaseError` if another attempt has begun meanwhile: then this one must send nothing new.
    """
    keys = {"of_account": account, "of_transaction": stored.id}
    if connection.execute(_LOCK_LATEST_ATTEMPT, keys).scalar_one_or_none() != attempt.number:
        raise DatabaseError(f"attempt {attempt.number} of {stored.id} lost its lease: it must not send")
    if not _take_nonce(connection, keys, attempt, signed):
        return False
    connection.execute(_RECORD_SIGNED.values(describe_transfer(signed)), {**keys, "attempt": attempt.number})
    return True


def record_answer(
    database: Database,
    account: int,
    stored: StoredTransaction,
    number: int,
    answered_hash: str | None,
    note: str,
    *,
    durable: bool = True,
) -> None:
    """Write down the answer to what this attempt sent."""
    values = {"of_account": account, "of_transaction": stored.id, "attempt": number}
    answered = {**values, "answered_hash": answered_hash, "answer": note[:MAX_NOTE]}
    database.change(_RECORD_ANSWER, answered, durable=durable)


def postpone(
    connection: Connection, account: int, stored: StoredTransaction, values: dict[str, Any], status: str
) -> StoredTransaction | None:
    """End the attempt `values["attempt"]` without a result; None if it is not the latest any more."""
    keys = {"of_account": account, "of_transaction": stored.id}
    row = read_row(connection.execute(_POSTPONE_AS[status], {**keys, **values}))
    return None if row is None else stored.with_change(row)


def park(
    connection: Connection, account: int, stored: StoredTransaction, now: int, reason: str
) -> StoredTransaction | None:
    """Allow no further attempt; None if it is parked, not submitted, or has ended."""
    keys = {"of_account": account, "of_transaction": stored.id, "now": now, "reason": reason[:MAX_NOTE]}
    row = read_row(connection.execute(_PARK, keys))
    return None if row is None else stored.with_change(row)


def unpark(
    connection: Connection, account: int, stored: StoredTransaction, due: int
) -> StoredTransaction | None:
    """Make an attempt due at this moment, parked or not; None if it is not submitted, or has ended."""
    keys = {"of_account": account, "of_transaction": stored.id, "next": due}
    row = read_row(connection.execute(_UNPARK, keys))
    return None if row is None else stored.with_change(row)


def get_gas_nonce(connection: Connection, chain: int, sender: str) -> int | None:
    """Return the next free gas nonce of this account; None if the books do not know the account."""
    keys = {"chain": chain, "address": sender.lower()}
    return connection.execute(_GET_NONCE, keys).scalar_one_or_none()


def describe_transfer(transfer: SignedTransfer) -> dict[str, Any]:
    """Return the columns of an attempt that hold its signed transfer."""
    return {**asdict(transfer), "sender": transfer.sender.lower()}


def _take_nonce(
    connection: Connection, keys: dict[str, Any], attempt: Attempt, signed: SignedTransfer
) -> bool:
    if signed.replaces is not None:
        # The same nonce with a higher fee, for the same payment: it is taken already.
        earlier = _read_history(connection, keys, attempt.number)
        latest = next((row for row in reversed(earlier) if row.raw is not None), None)
        return latest is not None and latest.transaction_hash == signed.replaces
    values = {"chain": signed.chain, "address": signed.sender.lower(), "next_nonce": signed.gas_nonce + 1}
    return connection.execute(_TAKE_NONCE.get(connection), values).one_or_none() is not None


def list_attempts(database: Database, account: int, transaction_id: str, most: int) -> list[AttemptRecord]:
    """List the latest attempts to settle this payment, latest first."""
    keys = {"of_account": account, "of_transaction": transaction_id, "most": most}
    with database.read() as connection:
        rows = connection.execute(_LIST_ATTEMPTS, keys).all()
    return [AttemptRecord(number, to_datetime(started_at), *others) for number, started_at, *others in rows]


def _build_attempt(begun: StoredTransaction, earlier: Sequence[Any]) -> Attempt:
    latest = next((row for row in reversed(earlier) if row.raw is not None), None)
    hashes = (begun.row["transaction_hash"], *(row.transaction_hash for row in earlier))
    return Attempt(
        submitted_at=begun.submitted_at or begun.created_at,
        number=begun.row["attempts"],
        from_block=begun.row["from_block"],
        hashes=tuple(
            dict.fromkeys(transaction_hash for transaction_hash in hashes if transaction_hash is not None)
        ),
        signed=None if latest is None else SignedTransfer(*(getattr(latest, name) for name in _SIGNED)),
        # An attempt that left no answer may have sent something just before its process died.
        sent_before=bool(earlier),
        amount=begun.used_atomic,
    )
