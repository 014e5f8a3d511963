"""What all payers of one test share: the emulator they pay with, and every answer they got."""

import itertools
from typing import Any

from faregate.core.models import Response, header_values
from faregate.emulator.clock import WorldClock
from faregate.emulator.emulator import Emulator
from faregate.testing.answers import Answer
from faregate.testing.stories import Sending

PROOF = "PAYMENT-SIGNATURE"


class Till:
    """One per test."""

    def __init__(self, emulator: Emulator) -> None:
        self.answers: list[Answer] = []
        self._emulator = emulator
        self._purchases = itertools.count(1)

    @property
    def clock(self) -> WorldClock:
        """The world's: a payment is valid by the time of the service."""
        return self._emulator.clock

    def next_purchase(self) -> int:
        return next(self._purchases)

    def options(self, sending: Sending) -> dict[str, Any]:
        """Those of the test, with the payment beside its own headers."""
        given = sending.errand.options
        if sending.proof is None:
            return given
        return {**given, "headers": {**given.get("headers", {}), PROOF: sending.proof}}

    def received(self, sending: Sending, response: Response) -> Answer:
        count: int = self._emulator.look(lambda _, diary: diary.count)
        answer = Answer(
            response,
            sending.errand,
            sending.proof,
            sending.purchase,
            sending.priced,
            count,
            self._transaction,
        )
        self.answers.append(answer)
        return answer

    def check(self) -> None:
        """The invariants. Not whether all is settled: a test may well end while a payment is open."""
        self._emulator.assert_no_double_charge(self.answers)
        self._emulator.assert_released_only_if_completed(self.answers)

    def _transaction(self, proof: str) -> str | None:
        carrying = (
            call.transaction
            for call in self._emulator.calls()
            if header_values(call.request.headers, PROOF.lower()) == [proof]
        )
        return next((found for found in carrying if found is not None), None)
