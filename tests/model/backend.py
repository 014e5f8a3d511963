"""The backend that flows are asked in: a real journal, and a service of small payments."""

from typing import Any, NamedTuple

from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import RunHandler
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest, Response
from faregate.core.results import CompletionPaid, Predictability
from faregate.errors import JournalError
from tests.core.flow_script import RULES
from tests.core.steps import Question
from tests.model import service
from tests.model.invariants import Facts, Violation, named, told, worked
from tests.model.replies import LATE, LOST, WELL, Raised, meaning, transaction
from tests.model.service import NEW, Payment

STORE_BEFORE, STORE_AFTER = "store before", "store after"
SLOWLY, WAITS, REFUSES = "slowly", "waits", "refuses"
BAD_WORK = "bad work"


class How(NamedTuple):
    """How one question is answered: what goes wrong on the way, and what course the payment takes."""

    fault: str = WELL
    course: str = ""


class ModelBackend:
    """`numbers` says which payment a proof is; payments and what happened to them are by number."""

    def __init__(self, journal: Any, numbers: dict[str, int]) -> None:
        self.journal = journal
        self.payments = {number: Payment() for number in numbers.values()}
        self.facts = {number: Facts() for number in numbers.values()}
        self._numbers = numbers
        self._transactions = {transaction(number): number for number in self.payments}
        self._how = How()
        self.under_way: list[Question] = []

    def asked(self, question: Question | None, how: How) -> Any:
        """The answer; a `Raised` if it is an exception."""
        self._how = how
        if how.fault == LATE and question is not None:
            self.under_way.append(question)
        if isinstance(question, RunHandler):
            return self._work(question)
        if question is None:
            raise LookupError("it has ended")
        try:
            if how.fault == STORE_BEFORE:
                raise JournalError("down")
            answer = question.perform(self)
            if how.fault == STORE_AFTER:
                raise JournalError("down, and yet it was written")
        except Violation:
            raise
        except Exception as error:
            return Raised(error)
        return answer

    def number_of(self, transaction_id: str) -> int:
        return self._transactions[transaction_id]

    def _work(self, question: RunHandler) -> HandlerResult:
        number = self._transactions[question.transaction_id or ""]
        self.facts[number] = worked(self.facts[number])
        if self._how.course == BAD_WORK:
            return HandlerResult(Response(500, (), b"sorry"), {})
        return HandlerResult(Response(200, (), b"the paid result %d" % number), {})

    def call_access(self, sale: PaidRequest, rules: OfferRevision, proof: str | None) -> Any:
        if proof is None:
            return meaning("access", NEW, 0, self._how.fault)
        number = self._numbers[proof]
        said = NEW
        if self._how.course == REFUSES and self.payments[number].status == NEW:
            self.facts[number] = self.facts[number]._replace(refused=True)
        elif self._acts():
            waits = self._how.course == WAITS
            self.payments[number], said = service.access(self.payments[number], waits)
        return meaning("access", said, number, self._how.fault)

    def call_complete(self, entry: PendingPayment, outcome: Outcome) -> Any:
        number = self._transactions[entry.transaction_id]
        self.facts[number] = told(self.facts[number], outcome)
        said = NEW
        if self._acts():
            slowly = self._how.course == SLOWLY
            self.payments[number], said = service.complete(self.payments[number], named(outcome), slowly)
        answer = meaning("complete", said, number, self._how.fault)
        if isinstance(answer, CompletionPaid):
            self.facts[number] = self.facts[number]._replace(proven=True)
        return answer

    def get_transaction_state(self, transaction_id: str) -> Any:
        number = self._transactions[transaction_id]
        return meaning("standing", service.standing(self.payments[number]), number, self._how.fault)

    def find_payer(self, transaction_id: str) -> Any:
        number = self._transactions[transaction_id]
        return meaning("payer", service.standing(self.payments[number]), number, self._how.fault)

    def write_fallback(self, transaction_id: str, revision_id: str) -> None:
        number = self._transactions[transaction_id]
        self.facts[number] = self.facts[number]._replace(last_resort=True)

    def _acts(self) -> bool:
        return "before" not in self._how.fault

    def arrives(self, question: Question) -> None:
        """What was under way for long: nobody waits for its answer any more."""
        self.under_way.remove(question)
        self.asked(question, How(LOST[1]))

    def resolve_offer(self, offer: Offer) -> OfferRevision:
        return RULES

    def get_known_revision(self, offer: Offer) -> OfferRevision:
        return RULES

    def refresh_revision(self, offer: Offer, rejected: OfferRevision) -> OfferRevision:
        return RULES

    def recall_predictability(self) -> Predictability:
        return Predictability.UNPREDICTABLE

    def record_predictability(self, predictability: Predictability) -> None: ...

    def get_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None: ...

    def wait_for_settlement(self, seconds: float) -> bool:
        return False

    def emit_event(self, event: object) -> None: ...

    def log_warning(self, message: str, transaction_id: str | None = None, setting: str = "") -> None: ...

    def close_execution(self, execution_id: str, rules: OfferRevision, work: HandlerResult | None) -> None:
        raise NotImplementedError("nothing is free here")
