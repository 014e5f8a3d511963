"""The in-memory state of one environment: catalog, records, reserved balances."""

import heapq
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from faregate.merchant.models import AccessRequest
from faregate.service.catalog import Catalog, Listing, PublishedRevision
from faregate.service.clock import MonotonicClock
from faregate.service.config import Seller, SettlementRule
from faregate.service.identifiers import Challenges, Ids
from faregate.service.index import TemporalIndex
from faregate.service.payments import Facilitator
from faregate.service.records import FINAL, AccessContext, ExecutionRecord, PayerRecord, TransactionRecord
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
_terms = lru_cache(maxsize=256)(Terms)
"""The same terms are one object, however many transactions remember them."""


@dataclass(slots=True)
class EnvironmentState:
    """One environment. Test and live share nothing but the clock, the id source and the facilitator."""

    environment: Environment
    seller: Seller
    seller_id: str
    catalog: Catalog
    clock: MonotonicClock
    ids: Ids
    challenge: Challenges
    """Gives a fresh challenge for instructions."""
    payments: Facilitator
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

    def terms(self, listing: Listing, revision: PublishedRevision) -> Terms:
        """Return what must be paid for this revision."""
        return _terms(
            revision.token, revision.rules.amount, self.seller.pay_to, listing.resource.max_timeout_seconds
        )

    def resolve(self, request: AccessRequest, listing: Listing, revision: PublishedRevision) -> AccessContext:
        """Resolve a request against the catalog; transactions of equal requests in a row share the object."""
        known = self._contexts.get(revision.id)
        # Compared by identity first: pydantic compares field by field.
        if (
            known is None
            or known.listing is not listing
            or (known.request is not request and known.request != request)
        ):
            known = AccessContext(request, listing, revision, self.terms(listing, revision))
            self._contexts[revision.id] = known
        return known

    def find_by_proof(self, proof: str) -> TransactionRecord | None:
        """Find the transaction that was authorized with exactly this `PAYMENT-SIGNATURE` header."""
        return self._proofs.get(proof)

    def find_by_authorization(self, token: Token, payment: SignedPayment) -> TransactionRecord | None:
        """Find the transaction that used this authorization of this token."""
        return self._uses.get(payment.get_key(token))

    def authorize(self, context: AccessContext, payment: SignedPayment, payer: str) -> TransactionRecord:
        """Create an open transaction; its authorization is used from here on."""
        now = self.clock.tick()
        known = self.payers.get(payer.lower())
        record = TransactionRecord(
            id=self.ids("txn", now),
            number=len(self.transactions) + 1,
            payment_request_id=self.ids("prq", now),
            payer=known or PayerRecord(self.ids("pyr", now), payer, now),
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

    def begin_execution(self, context: AccessContext) -> ExecutionRecord:
        """Create a free execution of this revision."""
        record = ExecutionRecord(self.ids("rex", self.clock.tick()), context.revision.id)
        self.executions[record.id] = record
        return record

    def _observe(self, payer: PayerRecord) -> None:
        self.payers[payer.identifier.lower()] = payer
        self._payers_by_id[payer.id] = payer
        self.observed.append(payer)
