"""One flow on its way: a payer's request, or a walk of the sweep."""

from typing import Any

from faregate.core.interfaces import Flow
from tests.core.steps import Question
from tests.model.flow_tree import loud
from tests.model.knowledge import BLANK


class Actor:
    """`number` is the payment it is about; 0 for a walk between two rows."""

    def __init__(self, name: str, flow: Flow[Any], number: int = 0, proof: str = "") -> None:
        self.name = name
        self.number = number
        self.proof = proof
        self.knowledge = BLANK
        self._flow = flow
        self.question: Question = loud(flow, None)

    def goes_on(self, answer: Any) -> None:
        """Raises what the flow raises, and `StopIteration` at its end."""
        self.knowledge = self.knowledge.after(self.question, answer)
        self.question = loud(self._flow, answer)

    def is_gone(self) -> None:
        self._flow.close()
