"""One environment of the service: its catalog, its records, and what it needs of the world. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from faregate.emulator.catalog import Catalog
from faregate.emulator.goods import Settlement
from faregate.emulator.holds import Holds
from faregate.emulator.identifiers import Ids
from faregate.emulator.payments import Payment, Payments
from faregate.emulator.state import ExecutionRecord, PayerRecord, Sale, TransactionRecord
from faregate.emulator.timeline import Timeline
from faregate.emulator.world import Seller
from faregate.merchant.types import Environment

Due = tuple[datetime, int, TransactionRecord]


@dataclass(slots=True)
class Books:
    """Test and live have one each; nothing is shared but time, ids and the payments behind the seam."""

    environment: Environment
    seller: Seller
    seller_id: str
    catalog: Catalog
    timeline: Timeline
    ids: Ids
    payments: Payments
    expose_execution_id: bool = False
    payer_settlements: dict[str, Settlement] = field(default_factory=dict[str, Settlement])
    holds: Holds = field(default_factory=Holds)
    payers: dict[str, PayerRecord] = field(default_factory=dict[str, PayerRecord])
    transactions: dict[str, TransactionRecord] = field(default_factory=dict[str, TransactionRecord])
    executions: dict[str, ExecutionRecord] = field(default_factory=dict[str, ExecutionRecord])
    due: list[Due] = field(default_factory=list[Due])
    """A heap of payments that settle by the clock."""
    _uses: dict[tuple[str, str, str], TransactionRecord] = field(
        default_factory=dict[tuple[str, str, str], TransactionRecord]
    )

    def user_of(self, sale: Sale, payment: Payment) -> TransactionRecord | None:
        """The transaction that already took this authorization's nonce."""
        return self._uses.get(_use(sale, payment))

    def authorize(self, sale: Sale, payment: Payment, payer: str) -> TransactionRecord:
        """A new open transaction; from here on the authorization is used."""
        now = self.timeline.stamp()
        record = TransactionRecord(
            id=self.ids("txn", now),
            number=len(self.transactions) + 1,
            payment_request_id=self.ids("prq", now),
            payer=self._payer(payer, now),
            sale=sale,
            payment=payment,
            created_at=now,
            history=[(now, "authorized")],
        )
        record.payer.transactions.append(record)
        self.transactions[record.id] = record
        self._uses[_use(sale, payment)] = record
        self.holds.add(record)
        return record

    def begin_execution(self, sale: Sale) -> ExecutionRecord:
        """A free execution of this revision."""
        record = ExecutionRecord(self.ids("rex", self.timeline.stamp()), sale.revision.id)
        self.executions[record.id] = record
        return record

    def _payer(self, identifier: str, now: datetime) -> PayerRecord:
        key = identifier.lower()
        if key not in self.payers:
            self.payers[key] = PayerRecord(self.ids("pyr", now), identifier, now)
        return self.payers[key]


def _use(sale: Sale, payment: Payment) -> tuple[str, str, str]:
    return sale.terms.token.address, payment.payer, payment.nonce
