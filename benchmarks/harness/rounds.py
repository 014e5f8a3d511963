"""The order of a run: contestant by contestant within a round, so that a noisy minute hits them all."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from harness.check import check
from harness.contestants import Case, Contestant
from harness.load import Measured, load, measure
from harness.processes import Upstream, server, upstream
from harness.proofs import proof_for

_SETTLES_WITHIN = 0.5
"""wrk hangs up in the middle of requests; a paywall finishes them, and that is not to be measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything. A server is started anew for every measurement: journals fill up."""

    rounds: int
    seconds: float
    warm_up: float
    cases: tuple[Case, ...]

    def steps(self) -> int:
        return self.rounds * sum(len(case.calls) * len(case.payers) for case in self.cases)


def run(plan: Plan) -> Iterator[Measured]:
    """Every measurement as it is made. Raises `Wrong` at the first contestant that misbehaves."""
    with upstream() as behind:
        for number in range(1, plan.rounds + 1):
            for case in plan.cases:
                for payers in case.payers:
                    for contestant in case.calls:
                        yield _one(plan, behind, case, contestant, payers, number)


def _one(
    plan: Plan, behind: Upstream, case: Case, contestant: Contestant, payers: int, number: int
) -> Measured:
    with server(contestant, behind) as front:
        proof = proof_for(front, contestant.takes)
        check(case, contestant, front, proof)
        unique = case.paid and contestant.takes == "any"
        load(front, case.path, proof if case.paid else "", unique, payers, plan.warm_up)
        time.sleep(_SETTLES_WITHIN)
        return measure(case, contestant, payers, number, front, behind, proof, plan.seconds)
