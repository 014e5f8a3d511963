"""Transactions, payers and free executions as they come out of the database, and what completes them.

Each statement that completes a transaction changes one (`of_account`, `of_transaction`), and returns
`CHANGING`, or nothing if it came too late.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Select, bindparam, case, func, insert, select, update

from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
    complete_request,
)
from faregate.rules.account import SettlementRule
from faregate.rules.catalog import Listing, PublishedRevision
from faregate.rules.payments import Attempt
from faregate.rules.records import AccessContext, ExecutionRecord, SettlementRecord, Status
from faregate.service.database.clock import ACCOUNT, NOW, STAMP
from faregate.service.database.schema import executions, payers, transactions
from faregate.service.database.statements import Statement
from faregate.service.database.types import Amount, to_datetime
from faregate.x402.models import SignedPayment, Terms

Row = Mapping[str, Any]
Resolve = Callable[[str, int, str], tuple[Listing, PublishedRevision]]
"""Finds a resource by its id and version, and a revision by its id."""

T: Final = transactions.c
CHANGING: Final = (
    T.settling_at,
    T.reconciling_at,
    T.finished_at,
    T.final_status,
    T.outcome,
    T.submitted_at,
    T.transaction_hash,
    T.payment_response,
    T.receipt,
    T.next_attempt_at,
    T.lease_until,
    T.attempts,
    T.parked_at,
    T.parked_reason,
    T.plan,
    T.reads,
)
"""What changes after the authorization: each statement that changes something returns these."""
PAYER_COLUMNS: Final = (
    payers.c.id.label("payer_id"),
    payers.c.identifier,
    payers.c.created_at.label("payer_created_at"),
)
SELECT: Final[Select[Any]] = select(transactions, *PAYER_COLUMNS).join(
    payers, (payers.c.account == T.account) & (payers.c.address == T.payer)
)
OF_ID: Final = (T.account == ACCOUNT) & (T.id == bindparam("of_transaction"))
FIND_ROW: Final = SELECT.where(OF_ID)
FIND: Final = Statement(FIND_ROW)
FIND_BY_PROOF: Final = Statement(SELECT.where(T.account == ACCOUNT, T.proof_hash == bindparam("proof_hash")))
_NEXT: Final = bindparam("next", type_=BigInteger())
_ACCEPT: Final = update(transactions).where(OF_ID, T.outcome.is_(None)).returning(*CHANGING)
ACCEPT_FAILED: Final = Statement(
    # A transaction that has ended before its seller reported keeps its end.
    _ACCEPT.values(
        outcome=bindparam("accepted"),
        finished_at=func.coalesce(T.finished_at, STAMP),
        final_status=func.coalesce(T.final_status, "failed"),
    )
)
IS_OPEN: Final = T.finished_at.is_(None)
SUBMIT: Final = _ACCEPT.values(
    outcome=bindparam("accepted"),
    submitted_at=case((IS_OPEN, STAMP)),
    # Calls that read it from here on get an answer to wait.
    settling_at=case((IS_OPEN, STAMP)),
    # If this process dies before it settles the payment, another one does so at this time.
    next_attempt_at=case((IS_OPEN, _NEXT)),
)
ACCEPT_SUCCEEDED: Final = Statement(SUBMIT)
_USED: Final = bindparam("used", type_=Amount())
ACCEPT_USED: Final = Statement(SUBMIT.values(used_amount=_USED).returning(T.used_amount))
"""As `ACCEPT_SUCCEEDED`, where the price follows the use."""
_END: Final = (
    update(transactions)
    .where(OF_ID, IS_OPEN)
    .values(next_attempt_at=None, lease_until=None, plan=None, parked_at=None)
    .returning(*CHANGING)
)
FAIL: Final = Statement(_END.values(finished_at=STAMP, final_status="failed"))
# The receipt names the moment, so it must be known before: nothing is changed if the cut-off time has passed
# it.
_SUCCEED: Final = _END.where(STAMP == NOW).values(
    finished_at=NOW,
    final_status="succeeded",
    transaction_hash=bindparam("settled_hash"),
    payment_response=bindparam("settled_response"),
    receipt=bindparam("settled_receipt"),
)
SUCCEED: Final = Statement(_SUCCEED)
SUCCEED_OTHERWISE: Final = Statement(_SUCCEED.values(used_amount=_USED).returning(T.used_amount))
"""As `SUCCEED`, where the chain shows another amount than was used."""
_EXECUTION: Final = (executions.c.account == ACCOUNT) & (executions.c.id == bindparam("execution"))
_FIND_EXECUTION: Final = select(executions.c.id, executions.c.revision, executions.c.metadata).where(
    _EXECUTION
)
_RECORD_EXECUTION: Final = (
    update(executions)
    .where(_EXECUTION, executions.c.metadata.is_(None))
    .values(metadata=bindparam("accepted"))
)


@dataclass(frozen=True, slots=True)
class Parked:
    """Since when no attempts are made for a payment, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class PayerRow:
    id: str
    identifier: str
    created_at: datetime


class StoredTransaction:
    """A transaction as it was when it was read: a row of `transactions` with its payer's columns."""

    def __init__(self, row: Row, resolve: Resolve) -> None:
        self.row = row
        self.id: str = row["id"]
        self.payment_request_id: str = row["payment_request_id"]
        self._resolve = resolve
        self._context: AccessContext | None = None
        self.begun: Attempt | None = None
        """The attempt that began when the outcome was recorded, until it is taken."""

    def __repr__(self) -> str:
        return f"StoredTransaction({self.id}, {self.status})"

    def with_change(self, row: Row) -> "StoredTransaction":
        """Return the transaction after a change that returned `CHANGING`."""
        return StoredTransaction({**self.row, **row}, self._resolve)

    @property
    def payer(self) -> PayerRow:
        row = self.row
        return PayerRow(row["payer_id"], row["identifier"], to_datetime(row["payer_created_at"]))

    @property
    def context(self) -> AccessContext:
        if self._context is None:
            self._context = self._build_context()
        return self._context

    def _build_context(self) -> AccessContext:
        row = self.row
        listing, revision = self._resolve(row["resource"], row["resource_version"], row["revision"])
        request = _build_request(
            revision.id, row["url"], row["mime_type"], row["description"], revision.token.symbol
        )
        facilitators = () if row["facilitator"] is None else (row["facilitator"],)
        terms = Terms(revision.token, row["amount"], row["pay_to"], row["max_timeout_seconds"], facilitators)
        return AccessContext(request, listing, revision, terms)

    @property
    def payment(self) -> SignedPayment:
        row = self.row
        return SignedPayment(
            payer=row["payer"],
            to=row["authorized_to"],
            value=row["authorized_value"],
            valid_after=int(row["valid_after"]),
            valid_before=int(row["valid_before"]),
            nonce=row["nonce"],
            signature=row["signature"],
            header="",  # a secret of the payer: only its hash is stored
            kept=row["echoed"] or "",
            facilitator=row["facilitator"],
        )

    def is_proof(self, header: str) -> bool:
        return compare_digest(self.row["proof_hash"], hash_proof(header))

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.row["created_at"])

    @property
    def status(self) -> Status:
        return self._history[-1][1]

    @property
    def changed_at(self) -> datetime:
        return to_datetime(self._history[-1][0])

    def status_at(self, moment: datetime) -> Status:
        return next(status for began, status in reversed(self._history) if to_datetime(began) <= moment)

    @cached_property
    def _history(self) -> list[tuple[int, Status]]:
        row = self.row
        moments: list[tuple[int | None, Status]] = [
            (row["created_at"], "authorized"),
            (row["settling_at"], "settling"),
            (row["reconciling_at"], "reconciling"),
            (row["finished_at"], row["final_status"]),
        ]
        return [(began, status) for began, status in moments if began is not None]

    @property
    def accepted(self) -> FailedCompleteRequest | SucceededCompleteRequest | None:
        outcome = self.row["outcome"]
        return None if outcome is None else complete_request.validate_json(outcome)

    @property
    def submitted_at(self) -> datetime | None:
        submitted_at = self.row["submitted_at"]
        return None if submitted_at is None else to_datetime(submitted_at)

    @property
    def used_atomic(self) -> int | None:
        # Absent where this process has written the row, and not read it since.
        used: int | None = self.row.get("used_amount")
        return used

    @property
    def parked(self) -> Parked | None:
        row = self.row
        return (
            None if row["parked_at"] is None else Parked(to_datetime(row["parked_at"]), row["parked_reason"])
        )

    @property
    def settled(self) -> SettlementRecord | None:
        row = self.row
        if row["receipt"] is None:
            return None
        return SettlementRecord(
            to_datetime(row["finished_at"]), row["transaction_hash"], row["payment_response"], row["receipt"]
        )

    @property
    def plan(self) -> SettlementRule | None:
        """The rule by which a simulated payment waits."""
        plan = self.row["plan"]
        return None if plan is None else SettlementRule.model_validate(json.loads(plan))


def read_row(result: Any) -> dict[str, Any] | None:
    """Return the only row of the result, if there is one."""
    row = result.mappings().one_or_none()
    return None if row is None else dict(row)


def hash_proof(header: str) -> bytes:
    return sha256(header.encode()).digest()


# The models are frozen, and most transactions of a seller are for few different requests.
@lru_cache(maxsize=1024)
def _build_request(revision_id: str, url: str, mime_type: str, description: str, asset: Any) -> AccessRequest:
    resource = AccessResource(url=url, mime_type=mime_type, description=description)
    return AccessRequest(revision_id=revision_id, resource=resource, settlement_asset=asset)


# Free executions: allowed work without a payment


def begin_execution(
    connection: Connection, account: int, execution_id: str, revision_id: str, now: int
) -> None:
    row = {"account": account, "id": execution_id, "revision": revision_id, "created_at": now}
    connection.execute(insert(executions), row)


def find_execution(connection: Connection, account: int, execution_id: str) -> ExecutionRecord | None:
    keys = {"of_account": account, "execution": execution_id}
    row = connection.execute(_FIND_EXECUTION, keys).one_or_none()
    if row is None:
        return None
    metadata = None if row.metadata is None else ResourceExecutionMetadata.model_validate_json(row.metadata)
    return ExecutionRecord(row.id, row.revision, metadata)


def record_execution(
    connection: Connection, account: int, execution_id: str, metadata: ResourceExecutionMetadata
) -> None:
    """Record the metadata, unless there is some."""
    keys = {"of_account": account, "execution": execution_id}
    connection.execute(_RECORD_EXECUTION, {**keys, "accepted": metadata.model_dump_json()})
