"""The store in memory: catalog, records and reserved balances of one environment."""

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from faregate.merchant.models import (
    AccessRequest,
    CompleteRequest,
    FailedCompleteRequest,
    ResourceExecutionMetadata,
)
from faregate.rules.account import Seller, SettlementRule, build_parked_rule
from faregate.rules.catalog import Catalog, Listing, PublishedRevision, build_terms
from faregate.rules.clock import MonotonicClock
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import ParsedListQuery
from faregate.rules.ids import Challenges, Ids
from faregate.rules.payments import (
    FACILITATOR,
    Attempt,
    Ledger,
    LedgerPayments,
    PaymentVerified,
    SettlementPending,
    SignedTransfer,
)
from faregate.rules.receipts import build_settlement_record
from faregate.rules.records import (
    FINAL,
    AccessContext,
    DueSettlement,
    ExecutionRecord,
    PayerRecord,
    PayerView,
    Transaction,
    TransactionRecord,
)
from faregate.rules.settlement import IMMEDIATE
from faregate.rules.store import NOTHING_FOUND, RecordPage, Uses, cut_page
from faregate.rules.transaction_index import TemporalIndex
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Environment, Token

_MAX_RELEASED: Final = 1_000
"""Released reservations that may stay in the heap."""


class Reservations:
    """Balances reserved by open transactions, so that two of them cannot spend one balance.

    A reservation ends when its transaction is final, or when its authorization expires unsubmitted.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], int] = {}
        self._held: dict[str, TransactionRecord] = {}
        self._expiring: list[tuple[int, str]] = []

    def get_total(self, token_address: str, payer: str) -> int:
        """Return the atomic units that this payer (lower case) has reserved."""
        return self._sums.get((token_address, payer), 0)

    def add(self, record: TransactionRecord) -> None:
        self._held[record.id] = record
        self._change(record, record.payment.value)
        heapq.heappush(self._expiring, (record.payment.valid_before, record.id))

    def release(self, record: TransactionRecord) -> None:
        """Release the reservation; a second release does nothing."""
        if self._held.pop(record.id, None) is not None:
            self._change(record, -record.payment.value)
            if len(self._expiring) > 2 * len(self._held) + _MAX_RELEASED:
                self._expiring = [entry for entry in self._expiring if entry[1] in self._held]
                heapq.heapify(self._expiring)

    def expire(self, now: datetime) -> None:
        """Release reservations whose authorization expired before it was submitted."""
        while self._expiring and self._expiring[0][0] <= now.timestamp():
            record = self._held.get(heapq.heappop(self._expiring)[1])
            # A submitted payment may still settle after its authorization expired, so it stays reserved.
            if record is not None and record.submitted_at is None:
                self.release(record)

    def _change(self, record: TransactionRecord, value: int) -> None:
        key = record.context.terms.token.address, record.payment.payer
        self._sums[key] = self._sums.get(key, 0) + value


Due = tuple[datetime, int, TransactionRecord]


@lru_cache(maxsize=256)
def _share_terms(terms: Terms) -> Terms:
    """Return one object for the same terms, however many transactions remember them."""
    return terms


@dataclass(slots=True)
class MemoryStore:
    """One environment. Test and live share nothing but the clock, the id source and the ledger."""

    environment: Environment
    seller: Seller
    seller_id: str
    catalog: Catalog
    clock: MonotonicClock
    ids: Ids
    challenge: Challenges
    """Gives a fresh challenge for instructions."""
    ledger: Ledger
    expose_execution_id: bool = False
    settlement: SettlementRule | None = None
    """The rule for payments whose payer, resource and transaction have none."""
    payer_settlements: dict[str, SettlementRule] = field(default_factory=dict[str, SettlementRule])
    reservations: Reservations = field(default_factory=Reservations)
    payers: dict[str, PayerRecord] = field(default_factory=dict[str, PayerRecord])
    transactions: dict[str, TransactionRecord] = field(default_factory=dict[str, TransactionRecord])
    executions: dict[str, ExecutionRecord] = field(default_factory=dict[str, ExecutionRecord])
    due: list[Due] = field(default_factory=list[Due])
    """A heap of payments that settle by the clock."""
    index: TemporalIndex[TransactionRecord] = field(default_factory=TemporalIndex[TransactionRecord])
    """All transactions, to be listed as of any moment; each payer has one of its own."""
    observed: list[PayerRecord] = field(default_factory=list[PayerRecord])
    """The payers in the order they were observed."""
    _contexts: dict[str, AccessContext] = field(default_factory=dict[str, AccessContext])
    _payers_by_id: dict[str, PayerRecord] = field(default_factory=dict[str, PayerRecord])
    _uses: dict[str, TransactionRecord] = field(default_factory=dict[str, TransactionRecord])
    """By `SignedPayment.get_key`."""
    _proofs: dict[str, TransactionRecord] = field(default_factory=dict[str, TransactionRecord])

    @property
    def seller_name(self) -> str:
        return self.seller.name

    @property
    def deps(self) -> Dependencies:
        """What an operation on this state works on."""
        return Dependencies(self, LedgerPayments(self.ledger))

    def now(self) -> datetime:
        return self.clock.now()

    def terms(self, listing: Listing, revision: PublishedRevision) -> Terms:
        """Return what must be paid for this revision."""
        return _share_terms(build_terms(listing, revision, self.seller.pay_to, (FACILITATOR,)))

    def resolve(self, request: AccessRequest, listing: Listing, revision: PublishedRevision) -> AccessContext:
        """Resolve a request against the catalog; transactions of equal requests in a row share the object."""
        context = self._contexts.get(revision.id)
        # Compared by identity first: pydantic compares field by field.
        if (
            context is None
            or context.listing is not listing
            or (context.request is not request and context.request != request)
        ):
            context = AccessContext(request, listing, revision, self.terms(listing, revision))
            self._contexts[revision.id] = context
        return context

    def find_by_proof(self, proof: str) -> TransactionRecord | None:
        return self._proofs.get(proof)

    def find_by_authorization(self, token: Token, payment: SignedPayment) -> TransactionRecord | None:
        """Find the transaction that used this authorization of this token."""
        return self._uses.get(payment.get_key(token))

    def find_uses(self, token: Token, payment: SignedPayment, settled_since: datetime | None = None) -> Uses:
        return Uses(
            self.find_by_proof(payment.header),
            self.find_by_authorization(token, payment),
            self.reservations.get_total(token.address, payment.payer),
        )

    def authorize(
        self,
        context: AccessContext,
        payment: SignedPayment,
        verified: PaymentVerified,
        before: Uses = NOTHING_FOUND,
    ) -> TransactionRecord:
        """Create an open transaction; its authorization is used from here on.

        No other call can have used the authorization or the funds meanwhile: calls are serial.
        """
        now = self.clock.tick()
        payer = self.payers.get(verified.payer.lower())
        record = TransactionRecord(
            id=self.ids("txn", now),
            number=len(self.transactions) + 1,
            payment_request_id=self.ids("prq", now),
            payer=payer or PayerRecord(self.ids("pyr", now), verified.payer, now),
            context=context,
            proof=payment.header,
            history=((now, "authorized"),),
        )
        self.adopt(record)
        return record

    def adopt(self, record: TransactionRecord) -> None:
        """Add a transaction with its payer and its history to every list and index.

        `ValueError` if it is not in the order of `number`. A payment that settles by time must be added to
        `due` as well.
        """
        # First what may raise: then nothing else has changed.
        self.index.add(record)
        record.payer.transactions.add(record)
        record.index = self.index
        self.transactions[record.id] = record
        self._uses[record.payment.get_key(record.context.terms.token)] = record
        self._proofs[record.proof] = record
        if record.payer.id not in self._payers_by_id:
            self._observe(record.payer)
        if record.status not in FINAL:
            self.reservations.add(record)

    def payer(self, payer_id: str) -> PayerRecord | None:
        return self._payers_by_id.get(payer_id)

    def find_revision(self, revision_id: str) -> tuple[Listing, PublishedRevision] | None:
        return self.catalog.find_revision(revision_id)

    def list_active(self) -> list[Listing]:
        return list(self.catalog.active(self.clock.now()))

    def list_resources(self, as_of: datetime) -> list[Listing]:
        return list(self.catalog.at(as_of))

    def begin_execution(self, context: AccessContext) -> str | None:
        record = ExecutionRecord(self.ids("rex", self.clock.tick()), context.revision.id)
        self.executions[record.id] = record
        return record.id if self.expose_execution_id else None

    def find_execution(self, execution_id: str) -> ExecutionRecord | None:
        return self.executions.get(execution_id)

    def record_execution(
        self, execution: ExecutionRecord, metadata: ResourceExecutionMetadata
    ) -> ExecutionRecord:
        if execution.metadata is None:
            execution.metadata = metadata
        return execution

    # Completion and settlement

    def find_transaction(self, transaction_id: str) -> TransactionRecord | None:
        return self.transactions.get(transaction_id)

    def record_outcome(
        self,
        transaction: Transaction,
        outcome: CompleteRequest,
        used_atomic: int | None = None,
        *,
        begins_attempt: bool = False,
    ) -> TransactionRecord | None:
        record = self._own(transaction)
        if record.accepted is not None:
            return None
        record.accepted, record.used_atomic = outcome, used_atomic
        if isinstance(outcome, FailedCompleteRequest):
            return self.record_failed(record, None)
        if record.status == "authorized":
            record.submitted_at = self.clock.tick()
        return record

    def find_settlement_rule(self, transaction: Transaction) -> SettlementRule | None:
        """Find the most specific rule: of the transaction, its payer, its resource, or the general one."""
        record = self._own(transaction)
        # The rule of the resource as it is now, not as it was when it was bought.
        listing = self.catalog.listings[record.context.listing.resource.key]
        payers = self.payer_settlements.get(record.payment.payer)
        return record.plan or payers or listing.settlement or self.settlement

    def schedule(
        self, transaction: Transaction, rule: SettlementRule, due: datetime | None, at: datetime
    ) -> TransactionRecord:
        record = self._own(transaction)
        record.plan, record.reads = rule, 0
        record.move(rule.via, at)
        if due is not None:
            heapq.heappush(self.due, (due, record.number, record))
        return record

    def unschedule(self, record: TransactionRecord) -> None:
        """Stop settling it by time. Scans everything that is scheduled."""
        self.due = [entry for entry in self.due if entry[2] is not record]
        heapq.heapify(self.due)

    def count_read(self, transaction: Transaction) -> SettlementRule | None:
        record = self._own(transaction)
        rule = record.plan
        if rule is None:
            # Its result was not known; ask again.
            return IMMEDIATE
        if rule.after_reads is None:
            return None
        record.reads += 1
        return rule if record.reads >= rule.after_reads else None

    def take_due(self, until: datetime) -> list[DueSettlement]:
        self.reservations.expire(until)
        due_settlements: list[DueSettlement] = []
        while self.due and self.due[0][0] <= until:
            due, _, record = heapq.heappop(self.due)
            if record.plan is not None:
                due_settlements.append(DueSettlement(record, record.plan, due))
        return due_settlements

    def begin_attempt(self, transaction: Transaction) -> Attempt:
        record = self._own(transaction)
        record.plan = None
        return Attempt(record.submitted_at or record.created_at, amount=record.used_atomic)

    def read_attempt(self, transaction: Transaction) -> Attempt:
        record = self._own(transaction)
        return Attempt(record.submitted_at or record.created_at, amount=record.used_atomic)

    def get_gas_nonce(self, chain: int, sender: str) -> int | None:
        return None

    def record_signed(self, transaction: Transaction, attempt: Attempt, signed: SignedTransfer) -> bool:
        return True

    def record_answer(
        self, transaction: Transaction, attempt: Attempt, transaction_hash: str | None, note: str
    ) -> None:
        return

    def record_settled(
        self,
        transaction: Transaction,
        transaction_hash: str,
        at: datetime | None,
        amount: int | None = None,
    ) -> TransactionRecord:
        record = self._own(transaction)
        if record.status not in FINAL:
            moment = at or self.clock.tick()
            if amount is not None:
                record.used_atomic = amount
            record.plan = None
            record.settled = build_settlement_record(self, record, transaction_hash, moment)
            record.move("succeeded", moment)
            self.reservations.release(record)
        return record

    def record_failed(self, transaction: Transaction, at: datetime | None) -> TransactionRecord:
        """Let the payment fail. Its reservation is released; its authorization stays used."""
        record = self._own(transaction)
        if record.status not in FINAL:
            # Without a plan, an entry of this transaction in `due` is skipped when its time comes.
            record.plan = None
            record.move("failed", at or self.clock.tick())
            self.reservations.release(record)
        return record

    def postpone(
        self, transaction: Transaction, attempt: Attempt, pending: SettlementPending, at: datetime | None
    ) -> TransactionRecord:
        """Keep it pending; the next read asks again."""
        record = self._own(transaction)
        record.move(pending.status, at or self.clock.tick())
        return record

    def park_underpaid(
        self, transaction: Transaction, attempt: Attempt, amount: int, at: datetime | None
    ) -> TransactionRecord:
        """Keep it until `settle` or `fail` of the test ends it."""
        return self.schedule(transaction, build_parked_rule(amount), None, at or self.clock.tick())

    def _own(self, transaction: Transaction) -> TransactionRecord:
        return self.transactions[transaction.id]

    # Lists

    def fix_snapshot(self, as_of: datetime | None) -> datetime | None:
        return self.clock.snapshot(as_of)

    def list_transactions(
        self, query: ParsedListQuery, status: str | None, payer_id: str | None
    ) -> RecordPage[TransactionRecord]:
        index = self.index if payer_id is None else self._index_payer(payer_id)
        return cut_page(
            query,
            index.count(query.as_of, status),
            lambda start, stop: index.between(start, stop, query.as_of, status),
        )

    def _index_payer(self, payer_id: str) -> TemporalIndex[TransactionRecord]:
        payer = self.payer(payer_id)
        return TemporalIndex[TransactionRecord]() if payer is None else payer.transactions

    def list_payers(self, query: ParsedListQuery) -> RecordPage[PayerView]:
        count = bisect_right(self.observed, query.as_of, key=lambda payer: payer.created_at)
        page = cut_page(query, count, lambda start, stop: self.observed[start:stop])
        return RecordPage(count, [payer.view(query.as_of) for payer in page.records])

    def _observe(self, payer: PayerRecord) -> None:
        self.payers[payer.identifier.lower()] = payer
        self._payers_by_id[payer.id] = payer
        self.observed.append(payer)
