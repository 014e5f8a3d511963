"""One trial: a sale is begun, a process dies, others take over, the payer comes back with the same proof."""

import shutil
import time
from contextlib import closing
from dataclasses import asdict
from typing import Any

from tests.crash.points.checker import Evidence, judge
from tests.crash.points.plan import Trial, draw_plan
from tests.crash.points.trial_setup import PATIENCE, TURN, TrialPlace, TrialSetup
from tests.support.processes import Process

RECOVERY = 10.0
"""Seconds after which what is still open stays so."""
RECOVERY_OF_BROKEN = 3.0
"""The same where a rule is taken out, and much stays open for ever."""
AFTERWARDS = 3.0
"""Seconds in which a process may still come to its point when its payer has a final answer."""
A_WHILE = 0.3
"""Seconds in which a sweeper that was stopped finishes what it had begun."""


def run_trial(trial: Trial, place: TrialPlace) -> dict[str, Any]:
    """Runs the trial; what is to be kept of it."""
    began = time.monotonic()
    run = TrialRun(trial, place)
    evidence = run.run()
    wrongs, counts = judge(evidence)
    if not any(wrongs.values()):
        shutil.rmtree(run.folder)
    return {
        "trial": trial.name,
        "seed": trial.seed,
        "broken": trial.broken,
        "seconds": round(time.monotonic() - began, 3),
        "deaths": run.deaths,
        "wrongs": {name: count for name, count in wrongs.items() if count},
        "counts": counts,
        "plan": asdict(run.plan),
        "evidence": asdict(evidence) if any(wrongs.values()) else None,
    }


class TrialRun:
    """`deaths` are those that were seen to happen where they were meant to."""

    def __init__(self, trial: Trial, place: TrialPlace) -> None:
        self.point, self.plan = trial.where, draw_plan(trial)
        self._recovers_in = RECOVERY_OF_BROKEN if trial.broken else RECOVERY
        self.deaths: list[str] = []
        self._setup = TrialSetup.create(trial, self.plan, place)
        self.folder = self._setup.life.said.parent

    def run(self) -> Evidence:
        with closing(self._setup):
            self._first_death()
            self._second_death()
            self._recovery()
            return self._setup.evidence()

    def _first_death(self) -> None:
        """The payer comes, perhaps several times at once, and the seller dies in the middle of it."""
        process = self._setup.seller(self.point.first, self.plan.visit)
        for _ in range(self.plan.uses):
            self._setup.payers.ask(process.port)
        if self.plan.killed_at is None:
            self._until_gone(process, process)
        else:
            self._setup.listen(self.plan.killed_at)
            process.end(self.point.first.stops)
        self._saw(process, self.point.name if self.point.second is None else self.point.first.at)

    def _second_death(self) -> None:
        """Of a seller that the payer comes back to, or of a sweeper, while the payer is away."""
        second = self.point.second
        if second is None:
            return
        sells = second.role == "seller"
        process = self._setup.seller(second) if sells else self._setup.sweeper(second)
        self._until_gone(process, process if sells else None)
        self._saw(process, self.point.name)

    def _saw(self, process: Process, name: str) -> None:
        if process.look() == "stopped" or process.died_at_its_point:
            self.deaths.append(name)
        self._setup.service.spare()
        if process.state == "stopped":
            self._wake(process)

    def _wake(self, process: Process) -> None:
        """Others take over from a process that is stopped; then it goes on as if nothing had been."""
        other = self._setup.seller()
        self._setup.sweeper()
        self._until_done(other, PATIENCE)
        process.go_on()
        if process.port:
            self._until_answered(process)
        else:
            self._setup.listen(A_WHILE)
        self._setup.end_all()

    def _recovery(self) -> None:
        """They are started again, and killed once more perhaps; in the end the service is well."""
        self._setup.end_all()
        seller = self._reopened()
        if self.plan.killed_again_at is not None:
            self._until_done(seller, self.plan.killed_again_at)
            self._setup.end_all()
            self.deaths.append("again")
            seller = self._reopened()
        self._until_done(seller, self.plan.heals_at)
        self._setup.service.heal()
        self._until_done(seller, self._recovers_in)
        seller = seller or self._setup.seller()
        self._setup.sweeper()
        self._until_done(seller, self._recovers_in)
        if self.plan.asks_again:
            self._setup.payers.ask(seller.port)
            self._until_answered(seller)

    def _reopened(self) -> Process | None:
        """A seller, unless the payer is away; and somebody who sweeps, beside it or instead."""
        if self.plan.sweeps == "beside" or not self.plan.returns:
            self._setup.sweeper()
        return self._setup.seller() if self.plan.returns else None

    # Waiting

    def _until_gone(self, process: Process, comes_to: Process | None) -> None:
        """Until it is dead or stopped; the payer keeps coming, if there is a seller to come to."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.look() == "alive":
            self._setup.turn(comes_to)
            if comes_to is not None and self._setup.has_final_answer():
                until = min(until, time.monotonic() + AFTERWARDS)

    def _until_done(self, comes_to: Process | None, seconds: float) -> None:
        """Until the payer has what there is to have, and no row is unfinished."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._setup.turn(comes_to)
            if (comes_to is None or self._setup.has_final_answer()) and self._setup.is_final():
                break

    def _until_answered(self, process: Process) -> None:
        until = time.monotonic() + PATIENCE
        while self._setup.payers.waits_for(process.port) and time.monotonic() < until:
            self._setup.listen(TURN)
