"""What payers have promised to open transactions, so that two of them cannot spend one balance. Pure.

A hold ends when its transaction is final, or when its authorization can no longer be taken.
"""

import heapq
from datetime import datetime

from faregate.service.records import TransactionRecord


class Holds:
    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], int] = {}
        self._held: set[str] = set()
        self._expiring: list[tuple[int, int, TransactionRecord]] = []

    def of(self, token_address: str, payer: str) -> int:
        """Atomic units this payer (lower case) has promised."""
        return self._sums.get((token_address, payer), 0)

    def add(self, record: TransactionRecord) -> None:
        self._held.add(record.id)
        self._change(record, record.payment.value)
        heapq.heappush(self._expiring, (record.payment.valid_before, record.number, record))

    def release(self, record: TransactionRecord) -> None:
        """Once or more often: the second time nothing happens."""
        if record.id in self._held:
            self._held.remove(record.id)
            self._change(record, -record.payment.value)

    def expire(self, now: datetime) -> None:
        """Releases what nobody submitted in time."""
        while self._expiring and self._expiring[0][0] <= now.timestamp():
            record = heapq.heappop(self._expiring)[2]
            if record.submitted_at is None:
                self.release(record)

    def _change(self, record: TransactionRecord, value: int) -> None:
        key = record.sale.terms.token.address, record.payment.payer
        self._sums[key] = self._sums.get(key, 0) + value
