"""Flows on their way, each asking one question after the other, in any order."""

from random import Random
from typing import Any

from faregate.core.claim_types import PendingPayment
from tests.model.environment import WELL, Environment
from tests.model.flow_run import Actor
from tests.model.invariants import Violation
from tests.model.monitor import Watch
from tests.model.notation import Say, brief, in_brief


class RunningFlows:
    def __init__(self, rng: Random, environment: Environment, watch: Watch, say: Say | None) -> None:
        self.actors: list[Actor] = []
        self._rng = rng
        self._environment = environment
        self._watch = watch
        self._say = say
        self._asking: list[Actor] = []
        self._others_came = False
        environment.between = self._others_go_on

    def one_goes_on(self) -> None:
        self._goes_on(self._rng.choice(self.actors))

    def one_is_gone(self) -> None:
        self._gone(self._rng.choice(self.actors))

    def _gone(self, actor: Actor) -> None:
        self.actors.remove(actor)
        actor.is_gone()
        self._watch.counts["gone"] += 1
        self._tell(f"{actor.name} is gone")

    def _goes_on(self, actor: Actor) -> None:
        """One question, its answer, and what the flow makes of it."""
        learned, answer = actor.knowledge.learned, self._asked(actor)
        if isinstance(answer, PendingPayment):
            self._watch.counts["taken"] += 1
            actor.number = self._environment.backend.number_of(answer.transaction_id)
        self._watch.answered(actor, answer)
        if self._environment.dies():
            self._gone(actor)
        else:
            self._goes_on_with(actor, answer)
            self._watch.went_on(actor, learned)

    def _asked(self, actor: Actor) -> Any:
        how = self._environment.how(actor.question)
        self._watch.asks(actor)
        self._asking.append(actor)
        self._others_came = False
        answer = self._environment.backend.asked(actor.question, how)
        self._asking.remove(actor)
        self._watch.counts["well" if how == WELL else "faults"] += 1
        if self._say is not None:
            self._say(f"{actor.name}: {in_brief(actor.question, how)} -> {brief(answer)}")
        return answer

    def _goes_on_with(self, actor: Actor, answer: Any) -> None:
        try:
            actor.goes_on(answer)
        except StopIteration as end:
            self._ended(actor, end.value, None)
        except Violation:
            raise
        except Exception as error:
            self._ended(actor, None, error)

    def _ended(self, actor: Actor, value: Any, error: Exception | None) -> None:
        self.actors.remove(actor)
        self._tell(f"{actor.name} ends with {brief(value or error)}")
        self._watch.ended(actor, value, error)

    def _others_go_on(self) -> None:
        """Between two calls to a store that belong to one question, one other flow goes on."""
        others = [actor for actor in self.actors if actor not in self._asking]
        if others and len(self._asking) == 1 and not self._others_came:
            self._goes_on(self._rng.choice(others))
            self._others_came = True

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)
