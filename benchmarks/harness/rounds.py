"""The order of a run: contestant by contestant within a round, so that a noisy minute hits them all."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.check import check
from harness.contestants import Case, Contestant, Kind
from harness.load import Measurement, load, measure
from harness.processes import Service, find_missing, run_server
from harness.proofs import build_proof

_WARM_UP_SECONDS = 1
_TRIES = 2
"""A contestant that failed as often is left out of the rounds that follow."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a measurement is missing. It costs no other contestant its figures."""

    kind: str
    contestant: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One server of a round: started once, then measured with each number of payers."""

    kind: Kind
    contestant: Contestant
    payers: tuple[int, ...]


def plan_steps(cases: tuple[Case, ...]) -> list[Step]:
    """Return the steps of one round. What stands in several tables is measured once."""
    payers: dict[tuple[str, Contestant], set[int]] = {}
    kinds = {case.kind.name: case.kind for case in cases}
    for case in cases:
        for contestant in case.contestants:
            payers.setdefault((case.kind.name, contestant), set()).update(case.payers)
    return [Step(kinds[kind], one, tuple(sorted(found))) for (kind, one), found in payers.items()]


def run_rounds(
    service: Service, steps: list[Step], rounds: int, seconds: float, deadline: float
) -> Iterator[Measurement | Failure]:
    """Yield what was measured or failed. No round begins that would end after `deadline` (monotonic)."""
    failures: Counter[Step] = Counter()
    longest = 0.0
    for number in range(1, rounds + 1):
        began = time.monotonic()
        if number > 1 and began + longest > deadline:
            return
        for step in steps:
            if failures[step] < _TRIES:
                try:
                    yield from _measure_step(service, step, number, seconds)
                except Exception as fault:  # whatever it was: the others' figures must not be lost
                    failures[step] += 1
                    yield Failure(
                        step.kind.name, step.contestant.name, number, f"{type(fault).__name__}: {fault}"
                    )
        longest = max(longest, time.monotonic() - began)


def _measure_step(service: Service, step: Step, number: int, seconds: float) -> Iterator[Measurement]:
    kind, contestant = step.kind, step.contestant
    missing = find_missing(contestant)
    if missing:
        raise RuntimeError(missing)
    with run_server(contestant, service) as server:
        proof = build_proof(server, contestant)
        check(kind, contestant, server, proof)
        load(kind, contestant, server, proof, step.payers[-1], _WARM_UP_SECONDS)
        for payers in step.payers:
            service.wait_idle()
            yield measure(kind, contestant, payers, number, server, service, proof, seconds)
