"""The store of the service's rules in SQL: one environment of one seller's account.

Each method is one short transaction, in most cases one statement. `rules/store.py` says what each must do.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from faregate.merchant.models import (
    AccessRequest,
    CompleteRequest,
    FailedCompleteRequest,
    ResourceExecutionMetadata,
)
from faregate.rules.account import SettlementRule, build_parked_rule
from faregate.rules.catalog import Listing, PublishedRevision, build_terms
from faregate.rules.http import ParsedListQuery
from faregate.rules.ids import Ids
from faregate.rules.payments import Attempt, PaymentVerified, SettlementPending, SignedTransfer
from faregate.rules.receipts import build_settlement_record
from faregate.rules.records import AccessContext, DueSettlement, ExecutionRecord, PayerView, Transaction
from faregate.rules.settlement import IMMEDIATE
from faregate.rules.store import NOTHING_FOUND, RecordPage, Uses
from faregate.service.database import attempts, lists, simulated_ledger, transactions
from faregate.service.database.accounts import AccountRow, find_account
from faregate.service.database.authorization import (
    authorize,
    authorize_first,
    build_row,
    find_references,
    find_uses,
)
from faregate.service.database.catalog import KnownCatalog
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import DatabaseError
from faregate.service.database.statements import Statement
from faregate.service.database.store_options import Memory, Shared
from faregate.service.database.transactions import (
    ACCEPT_FAILED,
    ACCEPT_SUCCEEDED,
    ACCEPT_USED,
    FAIL,
    FIND,
    FIND_BY_PROOF,
    FIND_ROW,
    SUCCEED,
    SUCCEED_OTHERWISE,
    Row,
    StoredTransaction,
    hash_proof,
    read_row,
)
from faregate.service.database.types import to_datetime, to_microseconds
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Environment, Token

_CLOCKS_DIFFER: Final = timedelta(seconds=30)
"""By how much the clocks of two processes may differ; what a payer paid in this time is summed per sale."""


def _describe_short(amount: int, attempt: Attempt) -> str:
    return f"settled {amount} atomic units of {attempt.amount} that were used: retry --accept-less takes it"


class SqlStore:
    """One environment of one seller's account, as `rules.store.Store`. Cheap to make; thread-safe."""

    def __init__(self, shared: Shared, account: AccountRow) -> None:
        self._shared = shared
        self._database = shared.database
        self._stamps = shared.stamps
        self._options = shared.options
        self._attempt_schedule = shared.options.attempt_schedule
        self.account = account

    @property
    def _memory(self) -> Memory:
        return self._shared.open_memory(self.account.generation)

    @property
    def environment(self) -> Environment:
        return self.account.environment

    @property
    def seller_id(self) -> str:
        return self.account.org

    @property
    def seller_name(self) -> str:
        return self.account.name

    @property
    def ids(self) -> Ids:
        return self._shared.ids

    @property
    def stamps(self) -> Stamps:
        return self._stamps

    @property
    def challenge(self) -> Callable[[], str]:
        return self._shared.challenge

    def now(self) -> datetime:
        # The rules of the simulated ledger settle by the time of stamps.
        is_simulated = self._options.is_simulated
        return to_datetime(self._stamps.now() if is_simulated else self._stamps.read_clock())

    # The catalog

    def find_revision(self, revision_id: str) -> tuple[Listing, PublishedRevision] | None:
        revision = self._catalog().catalog.find_revision(revision_id)
        # If it is missing, it may have been published since the account was read.
        return revision or self._reload().catalog.find_revision(revision_id)

    def resolve(self, request: AccessRequest, listing: Listing, revision: PublishedRevision) -> AccessContext:
        terms = build_terms(listing, revision, self.account.pay_to)
        return AccessContext(request, listing, revision, terms)

    def list_active(self) -> Sequence[Listing]:
        return list(self._catalog().catalog.active(self.now()))

    def list_resources(self, as_of: datetime) -> Sequence[Listing]:
        # What was published until the moment was fixed belongs to the list.
        return list(self._reload().catalog.at(as_of))

    def _catalog(self) -> KnownCatalog:
        catalog = self._memory.catalogs.find(self.account)
        if catalog is not None:
            return catalog
        with self._database.read() as connection:
            return self._memory.catalogs.get(connection, self.account)

    def _reload(self) -> KnownCatalog:
        with self._database.read() as connection:
            account = find_account(connection, self.account.org, self.account.environment)
            self.account = account or self.account
            return self._memory.catalogs.get(connection, self.account)

    def _resolve(self, resource_id: str, version: int, revision_id: str) -> tuple[Listing, PublishedRevision]:
        catalog = self._catalog()
        try:
            return catalog.get_version(resource_id, version), catalog.get_revision(revision_id)
        except LookupError:  # another process published it
            catalog = self._reload()
            return catalog.get_version(resource_id, version), catalog.get_revision(revision_id)

    # Access

    def find_by_proof(self, proof: str) -> StoredTransaction | None:
        return self._find(FIND_BY_PROOF, {"proof_hash": hash_proof(proof)})

    def find_uses(self, token: Token, payment: SignedPayment, settled_since: datetime | None = None) -> Uses:
        clock = self._stamps.read_clock()
        since = to_datetime(clock) - _CLOCKS_DIFFER if settled_since is None else settled_since
        uses = find_uses(
            self._database,
            self.account.id,
            token.address,
            payment,
            clock,
            to_microseconds(since),
            on_chain=not self._options.is_simulated,
        )
        by_proof, by_authorization = (
            None if used is None else self.find_transaction(used)
            for used in (uses.by_proof, uses.by_authorization)
        )
        return Uses(by_proof, by_authorization, uses.reserved, uses.reservations, uses.settled, since)

    def authorize(
        self,
        context: AccessContext,
        payment: SignedPayment,
        verified: PaymentVerified,
        before: Uses = NOTHING_FOUND,
    ) -> StoredTransaction | None:
        now = self._stamps.now()
        version = self._catalog().count_versions(context.listing)
        row = build_row(
            context, version, payment, verified, lambda prefix: self.ids(prefix, to_datetime(now))
        )
        funds = {
            "funds": verified.funds,
            "clock": self._stamps.read_clock(),
            "settled_since": to_microseconds(before.settled_since),
            "settled_before": before.settled,
        }
        row |= funds
        payer = self._memory.payers.get(self.account.id, payment.payer)
        if payer is None:
            return self._authorize_first(row, verified.payer, now)
        authorized = authorize(self._database, self.account.id, row, now, durable=self._is_durable)
        if authorized is None:
            has_gone_back = self._forget_if_older_copy(row, remembers_payer=True)
            return self._authorize_first(row, verified.payer, now) if has_gone_back else None
        return self._build_authorized({**authorized, **payer})

    def _authorize_first(self, row: dict[str, Any], identifier: str, now: int) -> StoredTransaction | None:
        """Create a transaction of a payer that this process has not met."""
        payer = {"payer_id": self.ids("pyr", to_datetime(now)), "identifier": identifier}
        authorized = authorize_first(
            self._database, self.account.id, row, now, payer, durable=self._is_durable
        )
        if authorized is None:
            self._forget_if_older_copy(row, remembers_payer=False)
            return None
        observed = {name: authorized[name] for name in ("payer_id", "identifier", "payer_created_at")}
        self._memory.payers.put(self.account.id, observed)
        return self._build_authorized(authorized)

    def _build_authorized(self, row: dict[str, Any]) -> StoredTransaction:
        self._stamps.remember(row["created_at"])
        return StoredTransaction(row, self._resolve)

    def _forget_if_older_copy(self, row: dict[str, Any], *, remembers_payer: bool) -> bool:
        """Forget everything if what is remembered is gone; return whether the payer was.

        Raises `DatabaseError` if what is sold is gone: it must be read again, and asked for again.
        """
        references = find_references(self._database, self.account.id, row)
        is_payer_gone = remembers_payer and not references.has_payer
        if references.has_price and not is_payer_gone:
            return False
        self._shared.forget()
        if not references.has_price:
            raise DatabaseError(f"{self._database.name} is an older copy of itself: ask again")
        return True

    def begin_execution(self, context: AccessContext) -> str | None:
        now = self._stamps.now()
        execution_id = self.ids("rex", to_datetime(now))
        with self._database.write_statement() as connection:
            transactions.begin_execution(connection, self.account.id, execution_id, context.revision.id, now)
        return execution_id if self._options.expose_execution_id else None

    def find_execution(self, execution_id: str) -> ExecutionRecord | None:
        with self._database.read() as connection:
            return transactions.find_execution(connection, self.account.id, execution_id)

    def record_execution(
        self, execution: ExecutionRecord, metadata: ResourceExecutionMetadata
    ) -> ExecutionRecord:
        with self._database.write_statement() as connection:
            transactions.record_execution(connection, self.account.id, execution.id, metadata)
        return self.find_execution(execution.id) or execution

    # Completion and settlement

    def find_transaction(self, transaction_id: str) -> StoredTransaction | None:
        return self._find(FIND, {"of_transaction": transaction_id})

    def record_outcome(
        self,
        transaction: Transaction,
        outcome: CompleteRequest,
        used_atomic: int | None = None,
        *,
        begins_attempt: bool = False,
    ) -> StoredTransaction | None:
        now = self._stamps.now()
        values = {"accepted": outcome.model_dump_json(), "now": now}
        if isinstance(outcome, FailedCompleteRequest):
            return self._change(transaction, ACCEPT_FAILED, values)
        clock = self._stamps.read_clock()
        values["next"] = self._after(clock, self._attempt_schedule.first_retry)
        if used_atomic is not None:
            return self._change(transaction, ACCEPT_USED, {**values, "used": used_atomic})
        if self._options.is_simulated or not begins_attempt:
            return self._change(transaction, ACCEPT_SUCCEEDED, values)
        stored, lease = self._to_stored(transaction), self._build_lease(clock)
        submitted = attempts.submit(self._database, self.account.id, stored, values, lease)
        if submitted is None:
            return None
        recorded, attempt = submitted
        self._remember(recorded.row)
        recorded.begun = attempt
        return recorded

    def find_settlement_rule(self, transaction: Transaction) -> SettlementRule | None:
        if not self._options.is_simulated:
            return None
        stored = self._to_stored(transaction)
        if stored.plan is not None:
            return stored.plan
        payer = stored.row["payer"]
        with self._database.read() as connection:
            rules = simulated_ledger.find_rules(connection, self.account.id, payer)
        # The rule of the resource as it is now, not as it was when it was bought.
        listing = self._catalog().catalog.listings[stored.context.listing.resource.key]
        return rules.get(payer) or listing.settlement or rules.get(simulated_ledger.DEFAULT)

    def schedule(
        self, transaction: Transaction, rule: SettlementRule, due: datetime | None, at: datetime
    ) -> StoredTransaction:
        stored = self._to_stored(transaction)
        values = {
            **self._keys,
            "now": to_microseconds(at),
            "due": None if due is None else to_microseconds(due),
        }
        with self._database.write_statement() as connection:
            changed = simulated_ledger.schedule(connection, stored, rule, values)
        return changed or self._read(stored)

    def count_read(self, transaction: Transaction) -> SettlementRule | None:
        stored = self._to_stored(transaction)
        rule = stored.plan if self._options.is_simulated else None
        if rule is None:
            return IMMEDIATE if self._may_attempt(stored) else None
        if rule.after_reads is None:
            return None
        with self._database.write_statement() as connection:
            reads = simulated_ledger.count_read(connection, self.account.id, stored)
        return rule if reads is not None and reads >= rule.after_reads else None

    def _may_attempt(self, stored: StoredTransaction) -> bool:
        """Whether a read of a payment without a rule begins an attempt."""
        # Of a real payment only when one is due anyway: a caller that polls must not ask the chain each time.
        # So, too, of a simulated one before its first attempt, because the call that completed it is about to
        # look up its rule; after that at each read.
        if self._options.is_simulated and stored.row["attempts"] > 0:
            return True
        now, row = self._stamps.read_clock(), stored.row
        is_due = row["next_attempt_at"] is not None and row["next_attempt_at"] <= now
        return is_due and (row["lease_until"] is None or row["lease_until"] <= now)

    def take_due(self, until: datetime) -> Sequence[DueSettlement]:
        if not self._options.is_simulated:
            return ()
        moment = to_microseconds(until)
        # Each request comes here, and nearly none finds anything: a write would wait for its turn.
        with self._database.read() as connection:
            if not simulated_ledger.has_due(connection, self.account.id, moment):
                return ()
        again = self._after(self._stamps.read_clock(), self._attempt_schedule.lease)
        with self._database.write() as connection:
            due = simulated_ledger.take_due(connection, self.account.id, moment, again)
        due_transactions = [(self.find_transaction(transaction_id), at) for transaction_id, at in due.items()]
        return [
            DueSettlement(stored, stored.plan, to_datetime(at))
            for stored, at in due_transactions
            if stored is not None and stored.plan is not None
        ]

    def begin_attempt(self, transaction: Transaction) -> Attempt | None:
        stored = self._to_stored(transaction)
        begun, stored.begun = stored.begun, None
        if begun is not None:
            return begun
        lease = self._build_lease(self._stamps.read_clock())
        return attempts.begin_attempt(self._database, self.account.id, stored, lease)

    def take_jobs(self, most: int) -> Sequence[tuple[StoredTransaction, Attempt]]:
        """Begin an attempt for each of up to `most` payments that are due and have no lease."""
        now = self._stamps.read_clock()
        lease = self._build_lease(now)
        jobs: list[tuple[StoredTransaction, Attempt]] = []
        with self._database.write() as connection:
            for transaction_id in attempts.find_due(connection, self.account.id, now, most):
                keys = {**self._keys, "of_transaction": transaction_id}
                stored = StoredTransaction(read_row(connection.execute(FIND_ROW, keys)) or {}, self._resolve)
                begun = attempts.begin_due_attempt(connection, self.account.id, stored, lease)
                if begun is not None:
                    jobs.append(begun)
        return jobs

    def begin_attempt_again(self, transaction_id: str) -> tuple[StoredTransaction, Attempt] | None:
        """Begin an attempt for a payment that has succeeded and came loose; the caller has leased it."""
        stored = self.find_transaction(transaction_id)
        if stored is None:
            return None
        with self._database.write() as connection:
            now = self._stamps.read_clock()
            return attempts.begin_attempt_again(connection, self.account.id, stored, now)

    def park(self, transaction: Transaction, reason: str) -> StoredTransaction | None:
        """Allow no further attempt to settle it; None if there is none to begin."""
        stored = self._to_stored(transaction)
        with self._database.write_statement() as connection:
            return attempts.park(connection, self.account.id, stored, self._stamps.read_clock(), reason)

    def unpark(self, transaction: Transaction) -> StoredTransaction | None:
        """Allow attempts to settle it; None if there is none to begin.

        The caller begins one now. If it dies before that, a worker begins one soon.
        """
        stored = self._to_stored(transaction)
        due = self._after(self._stamps.read_clock(), self._attempt_schedule.first_retry)
        with self._database.write_statement() as connection:
            return attempts.unpark(connection, self.account.id, stored, due)

    def read_attempt(self, transaction: Transaction) -> Attempt:
        """Read what all attempts so far know of a payment, without beginning one."""
        with self._database.read() as connection:
            return attempts.read_attempt(connection, self.account.id, self._to_stored(transaction))

    def get_gas_nonce(self, chain: int, sender: str) -> int | None:
        with self._database.read() as connection:
            return attempts.get_gas_nonce(connection, chain, sender)

    def record_signed(self, transaction: Transaction, attempt: Attempt, signed: SignedTransfer) -> bool:
        with self._database.write() as connection:
            return attempts.record_signed(
                connection, self.account.id, self._to_stored(transaction), attempt, signed
            )

    def record_answer(
        self, transaction: Transaction, attempt: Attempt, transaction_hash: str | None, note: str
    ) -> None:
        stored = self._to_stored(transaction)
        attempts.record_answer(
            self._database,
            self.account.id,
            stored,
            attempt.number,
            transaction_hash,
            note,
            durable=self._is_durable,
        )

    def record_settled(
        self,
        transaction: Transaction,
        transaction_hash: str,
        at: datetime | None,
        amount: int | None = None,
    ) -> StoredTransaction:
        stored = self._to_stored(transaction)
        statement, used = SUCCEED, dict[str, int]()
        if amount is not None and amount != stored.used_atomic:
            stored = stored.with_change({"used_amount": amount})
            statement, used = SUCCEED_OTHERWISE, {"used": amount}
        moment = self._choose_end(stored, at)
        while True:
            done = build_settlement_record(self, stored, transaction_hash, to_datetime(moment))
            values = {
                "now": moment,
                "settled_hash": done.transaction_hash,
                "settled_response": done.payment_response,
                "settled_receipt": done.receipt_json,
                **used,
            }
            changed = self._change(stored, statement, values)
            if changed is not None:
                return changed
            current = self._read(stored)
            if current.row["finished_at"] is not None:
                return current
            with self._database.write() as connection:  # a list of that moment was answered meanwhile
                moment = self._stamps.take(connection, self.account.id)

    def record_failed(self, transaction: Transaction, at: datetime | None) -> StoredTransaction:
        stored = self._to_stored(transaction)
        changed = self._change(stored, FAIL, {"now": self._choose_end(stored, at)})
        return changed or self._read(stored)

    def postpone(
        self, transaction: Transaction, attempt: Attempt, pending: SettlementPending, at: datetime | None
    ) -> StoredTransaction:
        stored, now = self._to_stored(transaction), self._stamps.now()
        again = self._after(self._stamps.read_clock(), self._attempt_schedule.get_retry(attempt.number))
        values = {"attempt": attempt.number, "now": now, "next": again}
        with self._database.write_statement() as connection:
            changed = attempts.postpone(connection, self.account.id, stored, values, pending.status)
        return changed or self._read(stored)

    def park_underpaid(
        self, transaction: Transaction, attempt: Attempt, amount: int, at: datetime | None
    ) -> StoredTransaction:
        stored, now = self._to_stored(transaction), self._stamps.now()
        values = {"attempt": attempt.number, "now": now, "next": None}
        with self._database.write() as connection:
            changed = attempts.postpone(connection, self.account.id, stored, values, "reconciling")
            if changed is not None and self._options.is_simulated:
                keys = {**self._keys, "now": now, "due": None}
                changed = simulated_ledger.schedule(connection, changed, build_parked_rule(amount), keys)
            elif changed is not None:
                clock, reason = self._stamps.read_clock(), _describe_short(amount, attempt)
                changed = attempts.park(connection, self.account.id, changed, clock, reason)
        return changed or self._read(stored)

    def _choose_end(self, stored: StoredTransaction, at: datetime | None) -> int:
        """Choose when the transaction ends: for a simulated payment `at`, for a real one the present."""
        # A real payment ends when the books learn of it: lists of earlier moments were answered without that.
        if at is None or not self._options.is_simulated:
            return self._stamps.now()
        return max(to_microseconds(at), to_microseconds(stored.changed_at))

    # Lists

    def fix_snapshot(self, as_of: datetime | None) -> datetime | None:
        return self._stamps.fix_snapshot(self.account.id, as_of)

    def list_transactions(
        self, query: ParsedListQuery, status: str | None, payer_id: str | None
    ) -> RecordPage[StoredTransaction]:
        with self._database.read() as connection:
            page = lists.list_transactions(
                connection, self._memory.counts, self.account.id, query, status, payer_id
            )
        return RecordPage(page.count, [StoredTransaction(row, self._resolve) for row in page.records])

    def list_payers(self, query: ParsedListQuery) -> RecordPage[PayerView]:
        with self._database.read() as connection:
            return lists.list_payers(connection, self._memory.counts, self.account.id, query)

    def find_payer_id(self, address: str) -> str | None:
        """Find the payer with this address, in any case."""
        with self._database.read() as connection:
            return lists.find_payer_id(connection, self.account.id, address)

    # What the methods share

    @property
    def _is_durable(self) -> bool:
        """Whether a change that sends nothing is synced by itself."""
        return not self._options.is_synced_by_journal

    @property
    def _keys(self) -> dict[str, Any]:
        return {"of_account": self.account.id}

    def _find(self, statement: Statement, keys: dict[str, Any]) -> StoredTransaction | None:
        rows = self._database.query(statement, {**self._keys, **keys})
        return StoredTransaction(rows[0], self._resolve) if rows else None

    def _change(
        self, transaction: Transaction, statement: Statement, values: dict[str, Any]
    ) -> StoredTransaction | None:
        stored = self._to_stored(transaction)
        keys = {**self._keys, "of_transaction": stored.id}
        rows = self._database.change(statement, {**keys, **values}, durable=self._is_durable)
        if not rows:
            return None
        self._remember(rows[0])
        return stored.with_change(rows[0])

    def _remember(self, row: Row) -> None:
        self._stamps.remember(max(row["submitted_at"] or 0, row["finished_at"] or 0))

    def _read(self, transaction: Transaction) -> StoredTransaction:
        stored = self.find_transaction(transaction.id)
        if stored is None:
            raise DatabaseError(f"{transaction.id} is gone: was the database replaced?")
        return stored

    def _to_stored(self, transaction: Transaction) -> StoredTransaction:
        return transaction if isinstance(transaction, StoredTransaction) else self._read(transaction)

    def _build_lease(self, now: int) -> attempts.AttemptLease:
        until = self._after(now, self._attempt_schedule.lease)
        return attempts.AttemptLease(now, until, self._shared.get_owner())

    @staticmethod
    def _after(now: int, seconds: float) -> int:
        return now + round(seconds * 1_000_000)
