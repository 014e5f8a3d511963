"""Without faults, sweeps alone bring every row to its end or report it, and who paid gets the result."""

from tests.model.environment import WELL, Environment
from tests.model.flow_run import Actor
from tests.model.invariants import Violation, check_end, check_swept
from tests.model.monitor import Watch
from tests.model.notation import Say, brief, in_brief
from tests.model.replies import transaction
from tests.model.scope import Flows
from tests.model.service import SUCCEEDED, settled

WALKS = 3
BETWEEN_WALKS = 400.0
BETWEEN_VISITS = 130.0
VISITS = 2
REDELIVERIES = 3


class Recovery:
    def __init__(self, environment: Environment, watch: Watch, flows: Flows, say: Say | None) -> None:
        self._environment = environment
        self._watch = watch
        self._flows = flows
        self._say = say

    def check(self) -> None:
        """Raises `Violation`."""
        for _ in range(WALKS):
            self._later(BETWEEN_WALKS)
            self._walk(Actor("the last walk", self._flows.sweep()))
        self._check_reported()
        for _ in range(VISITS):
            self._later(BETWEEN_VISITS)
            for proof, number in self._environment.proofs.items():
                self._walk(Actor(f"at last {proof}", self._flows.request(proof), number, proof))
        for number in self._environment.backend.payments:
            self._check_end(number)

    def _later(self, seconds: float) -> None:
        self._environment.now += seconds
        payments = self._environment.backend.payments
        payments.update({number: settled(payment, SUCCEEDED) for number, payment in payments.items()})

    def _walk(self, actor: Actor) -> None:
        while True:
            question = actor.question
            self._watch.asks(actor)
            answer = self._environment.backend.asked(question, WELL)
            if self._say is not None:
                self._say(f"{actor.name}: {in_brief(question, WELL)} -> {brief(answer)}")
            try:
                actor.goes_on(answer)
            except StopIteration as end:
                return self._watch.ended(actor, end.value, None)

    def _check_reported(self) -> None:
        owed = [line for line in self._environment.books.lines() if line.owed]
        check_swept(all(line.state == "stuck" and line.reason for line in owed))
        if len(self._environment.journal.list_holds(len(owed) + 1)) != len(owed):
            raise Violation("a row is stuck, and nobody is told")
        self._watch.counts["stuck"] += len(owed)

    def _check_end(self, number: int) -> None:
        payment, facts = self._environment.backend.payments[number], self._environment.backend.facts[number]
        line = self._environment.books.line(transaction(number))
        dropped = line is not None and line.state == "paid" and line.was_settled
        spent = dropped or (line is not None and line.redelivered >= REDELIVERIES)
        owed = line is not None and line.owed
        check_end(payment, facts, owed, spent or number in self._watch.given)
