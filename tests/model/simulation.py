"""One seed, one schedule: requests and walks over a real journal, with faults; then the faults end.

What happens is drawn before it happens, so a seed gives the same run every time.
"""

from collections import Counter
from dataclasses import replace
from random import Random

from tests.model.environment import WELL, Environment
from tests.model.fault_plan import SECONDS, draw_fault_plan
from tests.model.flow_run import Actor
from tests.model.flows import RunningFlows
from tests.model.monitor import Watch
from tests.model.notation import Retold, Say, in_brief
from tests.model.scope import Flows
from tests.model.service import FAILED, SUCCEEDED, expired, settled
from tests.model.simulated_recovery import Recovery

STEPS_EACH = 40
"""So many steps for each flow, before it clears up: enough for most to end."""


VALID = 4000.0
"""Seconds. What is authorized for so long has expired at the service."""


class Simulation:
    def __init__(self, seed: int, flows: Flows | None = None, say: Say | None = None) -> None:
        self._rng = Random(seed)
        # Not drawn: seeds that broke a rule once have the schedules that they had then.
        self._fault_plan = replace(draw_fault_plan(self._rng), named=seed % 3 != 0)
        self._flows = flows or Flows()
        self._say = say and Retold(say)
        self._environment = Environment(self._rng, self._fault_plan)
        self._watch = Watch(
            self._environment.backend,
            self._environment.books,
            lambda: self._environment.now,
            self._fault_plan.named,
        )
        self._running = RunningFlows(self._rng, self._environment, self._watch, self._say)
        self._to_come = self._fault_plan.crowd

    def run(self) -> Counter[str]:
        """What happened, counted. Raises `Violation`."""
        self._tell(str(self._fault_plan))
        for _ in range(STEPS_EACH * self._fault_plan.crowd):
            if not self._running.actors and not self._to_come:
                break
            self._something_happens()
        self._clear_up()
        return self._watch.counts

    def _something_happens(self) -> None:
        roll, anybody = self._rng.random(), self._running.actors
        if self._to_come and (not anybody or roll < 0.15):
            self._somebody_comes()
        elif not anybody or roll < 0.15 + self._fault_plan.jump:
            self._later(self._rng.choice(SECONDS))
        elif roll > 1 - self._fault_plan.gone:
            self._running.one_is_gone()
        elif roll > 0.85:
            self._arrive()
            self._payments_settle()
        else:
            self._running.one_goes_on()

    def _somebody_comes(self) -> None:
        self._to_come -= 1
        name = f"{self._fault_plan.crowd - self._to_come}"
        if self._rng.random() < 0.3:
            self._running.actors.append(Actor(f"walk {name}", self._flows.sweep()))
            return
        proof = self._rng.choice(list(self._environment.proofs))
        number, flow = self._environment.proofs[proof], self._flows.request(proof)
        self._running.actors.append(Actor(f"request {name} ({proof})", flow, number, proof))

    def _later(self, seconds: float) -> None:
        self._environment.now += seconds
        self._tell(f"{seconds:.0f} seconds later")
        if seconds >= VALID:
            payments = self._environment.backend.payments
            payments.update({number: expired(payment) for number, payment in payments.items()})

    def _arrive(self) -> None:
        """What was under way to the service for long."""
        for question in tuple(self._environment.backend.under_way):
            self._tell(f"what was under way arrives: {in_brief(question, WELL)}")
            self._environment.backend.arrives(question)

    def _payments_settle(self) -> None:
        for number, payment in self._environment.backend.payments.items():
            status = FAILED if self._rng.random() < 0.2 else SUCCEEDED
            self._environment.backend.payments[number] = settled(payment, status)

    def _clear_up(self) -> None:
        self._arrive()
        self._environment.calm = True
        if self._rng.random() < 0.5:
            while self._running.actors:
                self._running.one_goes_on()
        self._running.actors.clear()
        self._tell("it clears up")
        Recovery(self._environment, self._watch, self._flows, self._say).check()

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)
