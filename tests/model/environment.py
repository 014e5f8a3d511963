"""What a simulation runs on: a clock, a journal of either kind, the service, and what can go wrong there."""

from collections.abc import Callable
from random import Random
from typing import Any

from faregate.core.interfaces import RunHandler
from faregate.errors import JournalError
from faregate.journals.memory import MemoryJournal
from faregate.journals.persistent import PersistentJournal
from tests.core.steps import (
    CallAccess,
    CallComplete,
    FindPayer,
    GetTransaction,
    Question,
    RecallPredictability,
    WriteFallback,
)
from tests.journals.stores import STEADY
from tests.model.backend import BAD_WORK, REFUSES, SLOWLY, STORE_AFTER, STORE_BEFORE, WAITS, How, ModelBackend
from tests.model.dict_store import DictStore
from tests.model.fault_plan import FaultPlan
from tests.model.journal_views import KEY, JournalView, MemoryView, StoredView
from tests.model.replies import FAULTS, payer_of
from tests.support.encodings import encode_payment
from tests.support.identifiers import with_identifier

ACCESS_FAULTS = tuple(fault for fault in FAULTS if fault != "another id")
"""Whoever is granted another id than it should cannot know."""
WELL = How()
NAME = "order_0123456789abcdef"
"""What payers call their purchases. Two payers may have the same name for theirs."""


class Environment:
    def __init__(self, rng: Random, fault_plan: FaultPlan) -> None:
        self.now = 1_000_000.0
        self.calm = False
        self._rng = rng
        self._fault_plan = fault_plan
        self.between: Callable[[], None] = lambda: None
        self.proofs = _proofs(rng, fault_plan.payments, fault_plan.named)
        self.journal, self.books = self._stored() if fault_plan.stored else self._in_memory()
        self.backend = ModelBackend(self.journal, self.proofs)

    def _in_memory(self) -> tuple[Any, JournalView]:
        journal = MemoryJournal(clock=self._clock)
        return journal, MemoryView(journal)

    def _stored(self) -> tuple[Any, JournalView]:
        shelf = DictStore()
        shelf.before, shelf.after = self._before_write, self._after_write
        journal = PersistentJournal(shelf, keys=[KEY], policy=STEADY, clock=self._clock)
        return journal, StoredView(journal, shelf)

    def _clock(self) -> float:
        return self.now

    # What goes wrong

    def how(self, question: Question) -> How:
        """Drawn for each question."""
        if self.calm:
            return WELL
        if isinstance(question, CallAccess | CallComplete | GetTransaction | FindPayer):
            return self._over_the_network(question)
        if isinstance(question, RunHandler):
            return How(course=BAD_WORK) if self._happens(self._fault_plan.course) else WELL
        if (
            isinstance(question, WriteFallback | RecallPredictability)
            or self._fault_plan.stored
            or not self._happens(self._fault_plan.store)
        ):
            return WELL
        return How(self._rng.choice((STORE_BEFORE, STORE_AFTER)))

    def dies(self) -> bool:
        """With an answer in hand that it never looked at."""
        return not self.calm and self._happens(self._fault_plan.gone / 4)

    def _over_the_network(self, question: Question) -> How:
        faults = ACCESS_FAULTS if isinstance(question, CallAccess) else FAULTS
        fault = self._rng.choice(faults) if self._happens(self._fault_plan.network) else WELL.fault
        if isinstance(question, GetTransaction | FindPayer) or not self._happens(self._fault_plan.course):
            return How(fault)
        courses = (WAITS, REFUSES) if isinstance(question, CallAccess) else (SLOWLY,)
        return How(fault, self._rng.choice(courses))

    def _before_write(self, name: str) -> None:
        if self.calm:
            return
        if self._happens(self._fault_plan.store / 2):
            raise JournalError(f"down before {name}")
        if name != "find" and self._happens(self._fault_plan.between):
            self.between()

    def _after_write(self, name: str) -> None:
        if not self.calm and self._happens(self._fault_plan.store / 2):
            raise JournalError(f"down after {name}")

    def _happens(self, odds: float) -> bool:
        return odds > 0 and self._rng.random() < odds


def _proofs(rng: Random, payments: int, named: bool) -> dict[str, int]:
    """One proof for each payment, and for some a second one: the same payment, encoded anew."""
    numbers = range(1, payments + 1)
    proofs = {_encode(number): number for number in numbers}
    again = [number for number in numbers if rng.random() < 0.25]
    proofs |= {_encode(number, indent=1): number for number in again}
    return {with_identifier(proof, NAME): number for proof, number in proofs.items()} if named else proofs


def _encode(number: int, indent: int | None = None) -> str:
    return encode_payment(nonce=f"0x{number:064x}", payer=payer_of(number), indent=indent)
