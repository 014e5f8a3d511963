"""One seed, one schedule: requests and walks over a real journal, in bad weather; then it clears up.

What happens is drawn before it happens, so a seed tells the same story every time.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from faregate.records import Entry
from faregate.steps import TakeDue
from tests.model.actor import Actor
from tests.model.brief import Retold, brief, in_brief
from tests.model.recovery import Recovery
from tests.model.rules import Violation
from tests.model.scope import Flows
from tests.model.service import FAILED, SUCCEEDED, settled
from tests.model.stage import WELL, Stage
from tests.model.watch import Watch
from tests.model.weather import SECONDS, weather

STEPS_EACH = 40
"""So many steps for each flow, before it clears up: enough for most to end."""
Say = Callable[[str], None]


class Simulation:
    def __init__(self, seed: int, flows: Flows | None = None, say: Say | None = None) -> None:
        self._rng = Random(seed)
        self._weather = weather(self._rng)
        self._flows = flows or Flows()
        self._say = say and Retold(say)
        self._stage = Stage(self._rng, self._weather, self._others_go_on)
        self._watch = Watch(self._stage.world, self._stage.books)
        self._actors: list[Actor] = []
        self._to_come = self._weather.crowd
        self._asking: list[Actor] = []
        self._others_came = False

    def run(self) -> Counter[str]:
        """What happened, counted. Raises `Violation`."""
        self._tell(str(self._weather))
        for _ in range(STEPS_EACH * self._weather.crowd):
            if not self._actors and not self._to_come:
                break
            self._something_happens()
        self._clear_up()
        return self._watch.counts

    def _something_happens(self) -> None:
        roll = self._rng.random()
        if self._to_come and (not self._actors or roll < 0.15):
            self._somebody_comes()
        elif not self._actors or roll < 0.15 + self._weather.jump:
            self._later(self._rng.choice(SECONDS))
        elif roll > 1 - self._weather.gone:
            self._gone(self._rng.choice(self._actors))
        elif roll > 0.85:
            self._payments_settle()
        else:
            self._goes_on(self._rng.choice(self._actors))

    # What happens

    def _somebody_comes(self) -> None:
        self._to_come -= 1
        name = f"{self._weather.crowd - self._to_come}"
        if self._rng.random() < 0.3:
            self._actors.append(Actor(f"walk {name}", self._flows.sweep()))
            return
        proof = self._rng.choice(list(self._stage.proofs))
        number = self._stage.proofs[proof]
        self._actors.append(Actor(f"request {name} ({proof})", self._flows.request(proof), number, proof))

    def _later(self, seconds: float) -> None:
        self._stage.now += seconds
        self._tell(f"{seconds:.0f} seconds later")

    def _gone(self, actor: Actor) -> None:
        self._actors.remove(actor)
        actor.is_gone()
        self._watch.counts["gone"] += 1
        self._tell(f"{actor.name} is gone")

    def _payments_settle(self) -> None:
        for number, payment in self._stage.world.payments.items():
            status = FAILED if self._rng.random() < 0.2 else SUCCEEDED
            self._stage.world.payments[number] = settled(payment, status)

    def _goes_on(self, actor: Actor) -> None:
        """One question, its answer, and what the flow makes of it."""
        question, how = actor.question, self._stage.how(actor.question)
        before = self._watch.before(actor, self._stage.now)
        self._asking.append(actor)
        self._others_came = False
        answer = self._stage.world.asked(question, how)
        self._asking.remove(actor)
        if self._say is not None:
            self._say(f"{actor.name}: {in_brief(question, how)} -> {brief(answer)}")
        if isinstance(answer, Entry):
            actor.number = self._stage.world.number_of(answer.transaction_id)
        self._watch.answered(actor, before, alone=not self._others_came)
        self._watch.counts["faults" if how != WELL else "well"] += 1
        self._goes_on_with(actor, answer)
        self._watch.went_on(actor, before)
        if isinstance(question, TakeDue):
            self._watch.counts["taken"] += isinstance(answer, Entry)

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
        self._actors.remove(actor)
        if self._say is not None:
            self._say(f"{actor.name} ends with {brief(value or error)}")
        self._watch.ended(actor, value, error)

    def _others_go_on(self) -> None:
        """Between two calls to a store that belong to one question, one other flow goes on."""
        others = [actor for actor in self._actors if actor not in self._asking]
        if self._others_came or not others or len(self._asking) > 1:
            return
        self._goes_on(self._rng.choice(others))
        self._others_came = True

    # In the end

    def _clear_up(self) -> None:
        self._stage.calm = True
        if self._rng.random() < 0.5:
            while self._actors:
                self._goes_on(self._rng.choice(self._actors))
        self._actors.clear()
        self._tell("it clears up")
        Recovery(self._stage, self._watch, self._flows, self._say).check()

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)
