"""Where a flow stands: a tree of its questions, grown as answers are given.

A flow is a pure function of its answers, and a generator cannot be copied: each place is found once, by
replaying the answers that lead to it. Questions that nobody else can notice are answered on the way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from faregate.core.interfaces import Flow
from faregate.core.models import HandlerResult
from faregate.core.results import Predictability
from tests.core.flow_script import RULES
from tests.core.steps import (
    EmitEvent,
    LogWarning,
    Question,
    RecallPredictability,
    ResolveOffer,
    Sleep,
)
from tests.model.knowledge import BLANK, Knowledge
from tests.model.notation import brief
from tests.model.replies import Raised

Make = Callable[[], Flow[Any]]

_ANSWERS: dict[type, Any] = {
    ResolveOffer: RULES,
    RecallPredictability: Predictability.UNPREDICTABLE,
}


class End(NamedTuple):
    """What a flow gave, or that it raised."""

    value: Any = None
    error: Exception | None = None

    def brief(self) -> str:
        return brief(self.value if self.error is None else self.error)


class Place:
    """A question that waits for its answer, or the end."""

    __slots__ = ("_after", "_answers", "_make", "end", "knowledge", "proof", "question")

    def __init__(
        self, make: Make, proof: str = "", answers: tuple[Any, ...] = (), knowledge: Knowledge = BLANK
    ) -> None:
        self._make = make
        self._answers = answers
        self._after: dict[Any, Place] = {}
        self.proof = proof
        self.knowledge = knowledge
        self.question, self.end = _replay(make(), answers)

    def after(self, answer: Any) -> "Place":
        key = answer.response if isinstance(answer, HandlerResult) else answer
        place = self._after.get(key)
        if place is None:
            knowledge = self.knowledge.after(self.question, answer)
            place = self._after[key] = Place(self._make, self.proof, (*self._answers, answer), knowledge)
        return place

    # For whoever reads a schedule

    def last_answer(self) -> str:
        end = "" if self.end is None else f"; it ends with {self.end.brief()}"
        return f" -> {brief(self._answers[-1])}{end}"


def _replay(flow: Flow[Any], answers: tuple[Any, ...]) -> tuple[Question | None, End | None]:
    try:
        question = loud(flow, None)
        for answer in answers:
            question = loud(flow, answer)
    except StopIteration as end:
        return None, End(end.value)
    except Exception as error:
        return None, End(error=error)
    finally:
        flow.close()
    return question, None


def loud(flow: Flow[Any], answer: Any) -> Question:
    """The next question that somebody else may notice."""
    question: Question = flow.throw(answer.error()) if isinstance(answer, Raised) else flow.send(answer)
    while isinstance(question, Sleep | LogWarning | EmitEvent | ResolveOffer | RecallPredictability):
        question = flow.send(_ANSWERS.get(type(question)))
    return question
