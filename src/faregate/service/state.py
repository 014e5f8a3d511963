"""The in-memory state of one environment: catalog, records, reserved balances."""

import heapq
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from faregate.service.catalog import Catalog, Listing, PublishedRevision
from faregate.service.clock import MonotonicClock
from faregate.service.config import Seller, SettlementRule
from faregate.service.identifiers import Challenges, Ids
from faregate.service.index import TemporalIndex
from faregate.service.payments import Facilitator
from faregate.service.records import FINAL, AccessContext, ExecutionRecord, PayerRecord, TransactionRecord
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Environment, Token


class Reservations:
    """Balances reserved by open transactions, so that two of them cannot spend one balance.

    A reservation ends when its transaction is final, or when its authorization expires unsubmitted.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], int] = {}
        self._held: set[str] = set()
        self._expiring: list[tuple[int, int, TransactionRecord]] = []

    def get_total(self, token_address: str, payer: str) -> int:
        """Return the atomic units that this payer (lower case) has reserved."""
        return self._sums.get((token_address, payer), 0)

    def add(self, record: TransactionRecord) -> None:
        self._held.add(record.id)
        self._change(record, record.payment.value)
        # The number breaks ties: records themselves cannot be compared.
        heapq.heappush(self._expiring, (record.payment.valid_before, record.number, record))

    def release(self, record: TransactionRecord) -> None:
        """Release the reservation; a second release does nothing."""
        if record.id in self._held:
            self._held.remove(record.id)
            self._change(record, -record.payment.value)

    def expire(self, now: datetime) -> None:
        """Release reservations whose authorization expired before it was submitted."""
        while self._expiring and self._expiring[0][0] <= now.timestamp():
            record = heapq.heappop(self._expiring)[2]
            # A submitted payment may still settle after its authorization expired, so it stays reserved.
            if record.submitted_at is None:
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
    """How payments end of which no payer, resource or transaction says more."""
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
    _payers_by_id: dict[str, PayerRecord] = field(default_factory=dict[str, PayerRecord])
    _uses: dict[tuple[str, str, str], TransactionRecord] = field(
        default_factory=dict[tuple[str, str, str], TransactionRecord]
    )
    _proofs: dict[str, TransactionRecord] = field(default_factory=dict[str, TransactionRecord])

    def terms(self, listing: Listing, revision: PublishedRevision) -> Terms:
        """Return what must be paid for this revision."""
        return _terms(
            revision.token, revision.rules.amount, self.seller.pay_to, listing.resource.max_timeout_seconds
        )

    def find_by_proof(self, proof: str) -> TransactionRecord | None:
        """Find the transaction that was authorized with exactly this `PAYMENT-SIGNATURE` header."""
        return self._proofs.get(proof)

    def find_by_authorization(
        self, context: AccessContext, payment: SignedPayment
    ) -> TransactionRecord | None:
        """Find the transaction that used this authorization."""
        return self.find_by_token_use(context.terms.token, payment)

    def find_by_token_use(self, token: Token, payment: SignedPayment) -> TransactionRecord | None:
        """Find the transaction that used this authorization of this token."""
        return self._uses.get(_get_authorization_key(token, payment))

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
            payment=payment,
            created_at=now,
            history=[(now, "authorized")],
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
        record.indexes = (self.index, record.payer.transactions)
        self.transactions[record.id] = record
        self._uses[_get_authorization_key(record.context.terms.token, record.payment)] = record
        self._proofs[record.payment.header] = record
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


def _get_authorization_key(token: Token, payment: SignedPayment) -> tuple[str, str, str]:
    return token.address, payment.payer, payment.nonce
