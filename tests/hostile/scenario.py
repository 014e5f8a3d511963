"""What happens in a case: the payer pays, comes back, the seller sweeps; then the service is well again."""

from tests.hostile import checker
from tests.hostile.case import Case
from tests.hostile.harness import Harness, Payers, Stack, swept
from tests.hostile.sellers import SELLS
from tests.support.faulty_service import instructions
from tests.support.identifiers import with_identifier

LATER = 400.0
"""Seconds of the journal's clock: longer than any lease, shorter than a redelivery window."""
ROUNDS = 8
IDENTIFIER = "pay_0123456789abcdef"


class Scenario:
    def __init__(self, case: Case, stack: Stack, harness: Harness, payers: Payers) -> None:
        self.case = case
        self.stack = stack
        self.harness = harness
        self.payers = payers
        self.name = harness.open(case, stack)

    async def play(self) -> None:
        case = self.case
        try:
            if case.call.path == "/free" or not case.call.acts:
                await self._without_paying()
            if case.call.path != "/free":
                case.proofs = self.sign()
                await self._pay()
            checker.look_back(case)
        finally:
            await self.harness.close(self.name, case, self.stack)

    async def _without_paying(self) -> None:
        for _ in range(2):
            await self.visit()

    async def _pay(self) -> None:
        case = self.case
        for _ in range(2):
            await self.visit()
        await self._sweep()
        await self.visit()
        await self.harness.mend(self.name, case, self.stack)
        for number in range(ROUNDS):
            if self._is_over():
                break
            if (number + len(case.fault.name)) % 2:
                await self.visit()
            else:
                await self._sweep()
        if case.is_named and case.delivered:
            case.proofs = (self._sign_named(),)
            await self.visit()

    async def visit(self) -> None:
        case = self.case
        if case.delivered and not case.is_named and case.call.path != "/free":
            return
        if case.must_pay_anew:
            return
        if case.call.operation == "contracts":
            case.paywall._revisions._read_at = case.paywall._revisions._asked_at = float("-inf")
        proof = case.proof
        case.visits += 1
        seen = await self.payers.ask(self.stack, self.name, case.call.path, proof)
        checker.look_at(case, seen, proof is not None)

    async def _sweep(self) -> None:
        self.case.clock.now += LATER
        await swept(self.case, self.stack)

    def _is_over(self) -> bool:
        case = self.case
        return (case.delivered or case.must_pay_anew) and not case.owed()

    def sign(self) -> tuple[str, ...]:
        """The payments that the payer sends in turn: two of a purchase that has a name."""
        return (self._sign_named(), self._sign_named()) if self.case.is_named else (self._sign(),)

    def _sign_named(self) -> str:
        return with_identifier(self._sign(), IDENTIFIER)

    def _sign(self) -> str:
        """A payment for what the service asks, whoever says so."""
        path = self.case.call.path
        return self.case.wallet.pay(instructions(self.case.service.emulator, path, SELLS[path]))
