"""One trial: a sale is begun, a process dies, others take over, the payer comes back with the same proof."""

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from faregate.emulator import Wallet
from tests.torture import shop, stores
from tests.torture.judge import UNFINISHED, Evidence, Received, judged
from tests.torture.payers import Payers, Use
from tests.torture.plan import Trial, drawn
from tests.torture.points import Death
from tests.torture.processes import Gate, Process, fork, serving
from tests.torture.service_at import ServiceAt
from tests.torture.shop import Life

PATIENCE = 15.0
"""Seconds in which a process must come to its point."""
RECOVERY = 10.0
"""Seconds after which what is still open stays so."""
AFTERWARDS = 3.0
"""Seconds in which a process may still come to its point, or say something, when all seems to be over."""
A_WHILE = 0.3
"""Seconds in which a sweeper that was stopped does what it had in mind."""
TURN = 0.04


@dataclass(frozen=True)
class Ground:
    """Where trials take place: the service's port, a folder, and the store (a URL, or empty for a file)."""

    service: int
    folder: Path
    store: str = ""


class Story:
    def __init__(self, trial: Trial, ground: Ground) -> None:
        self.trial, self.plan = trial, drawn(trial)
        safe = trial.name.replace(" ", "_").replace("/", "_").replace(":", "_")
        self.folder = ground.folder / safe
        self.folder.mkdir(parents=True, exist_ok=True)
        self.service = ServiceAt(ground.service, f"{safe}_{time.monotonic_ns()}")
        self.life = Life(
            stores.place_of(ground.store, self.folder),
            self.service.url,
            self.folder / "executions",
            self.folder / "said",
            broken=trial.broken,
        )
        self.received: list[Received] = []
        self.processes: list[Process] = []
        self.confirmed: list[str] = []
        self._began = time.monotonic()

    def told(self) -> dict[str, Any]:
        """Runs the trial; what is to be kept of it."""
        instructions = self.service.begin(self.plan.faults, self.plan.settlement)
        self.payers = Payers(Wallet().pay(instructions), f"{shop.PATH}?work={self.plan.work}")
        try:
            self._first_life()
            self._second_death()
            self._recovery()
            evidence = self._evidence()
        finally:
            self.payers.leave()
            for process in self.processes:
                process.kill()
            self.service.forget()
        wrongs, counts = judged(evidence)
        return {
            "trial": self.trial.name,
            "seed": self.trial.seed,
            "broken": self.trial.broken,
            "seconds": round(time.monotonic() - self._began, 3),
            "deaths": self.confirmed,
            "wrongs": {name: count for name, count in wrongs.items() if count},
            "counts": counts,
            "plan": asdict(self.plan),
            "evidence": asdict(evidence) if any(wrongs.values()) else None,
        }

    # Processes

    def _open(self, death: Death | None = None, visit: int = 1) -> Process:
        life = replace(self.life, death=death, visit=visit)
        process = serving(partial(shop.serve, life), self.payers.sockets)
        return self._known(process, death, visit)

    def _sweeper(self, death: Death | None = None) -> Process:
        life = replace(self.life, death=death)
        with Gate() as gate:
            process = fork(partial(gate.then, partial(shop.sweep, life)), self.payers.sockets)
            return self._known(process, death, 1)

    def _known(self, process: Process, death: Death | None, visit: int) -> Process:
        self.processes.append(process)
        if death is not None and death.by_the_service:
            self.service.kill_when_acted(death.at.partition(":")[0], visit, process.pid)
        return process

    def _saw_die(self, process: Process, name: str) -> None:
        if process.look() == "stopped" or process.died_at_its_point:
            self.confirmed.append(name)
        self.service.spare()

    # The story

    def _first_life(self) -> None:
        """The payer comes, perhaps several times at once, and the shop dies in the middle of it."""
        point = self.trial.where
        process = self._open(point.first, self.plan.visit)
        for _ in range(self.plan.uses):
            self.payers.ask(process.port)
        if self.plan.killed_at is None:
            self._until_gone(process, process)
        else:
            self._listen(self.plan.killed_at)
            process.end(point.first.stops)
        self._saw_die(process, point.name if point.second is None else point.first.at)
        if process.state == "stopped":
            self._wake(process)

    def _second_death(self) -> None:
        point = self.trial.where
        if point.second is None:
            return
        role = self._open if point.second.role == "shop" else self._sweeper
        process = role(point.second)
        self._until_gone(process, process if point.second.role == "shop" else None)
        self._saw_die(process, point.name)
        if process.state == "stopped":
            self._wake(process)

    def _wake(self, process: Process) -> None:
        """Others take over from a process that is stopped; then it goes on as if nothing had been."""
        other, sweeper = self._open(), self._sweeper()
        self._until_done(other, PATIENCE)
        process.go_on()
        if process.port:
            self._until_answered(process)
        else:
            self._listen(A_WHILE)
        process.kill()
        other.kill()
        sweeper.kill()

    def _recovery(self) -> None:
        """Whatever is left of them is started again, and killed once more perhaps."""
        for process in self.processes:
            process.kill()
        open_, sweeper = (self._open() if self.plan.returns else None), self._beside()
        if self.plan.killed_again_at is not None:
            self._until_done(open_, self.plan.killed_again_at)
            killed = [process.kill() for process in (open_, sweeper) if process is not None]
            if any(killed):
                self.confirmed.append("again")
            open_, sweeper = (self._open() if self.plan.returns else None), self._beside()
        self._until_done(open_, self.plan.heals_at)
        self.service.heal()
        if open_ is None:
            sweeper = sweeper or self._sweeper()
            self._until_done(None, RECOVERY)
            open_ = self._open()
        self._until_done(open_, RECOVERY / 2)
        sweeper = sweeper or self._sweeper()
        self._until_done(open_, RECOVERY)
        if self.plan.asks_again:
            self.payers.ask(open_.port)
            self._until_answered(open_)

    def _beside(self) -> Process | None:
        return self._sweeper() if self.plan.sweeps == "beside" or not self.plan.returns else None

    # Payers

    def _until_gone(self, process: Process, comes_to: Process | None) -> None:
        """Until it is dead or stopped; the payer keeps coming, if there is a shop to come to."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.look() == "alive":
            self._turn(comes_to)
            if comes_to is not None and self._has_final_answer():
                until = min(until, time.monotonic() + AFTERWARDS)

    def _until_done(self, process: Process | None, seconds: float) -> None:
        """Until the payer has what there is to have, and no row is unfinished."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn(process)
            if (process is None or self._has_final_answer()) and self._is_final():
                break

    def _until_answered(self, process: Process) -> None:
        until = time.monotonic() + PATIENCE
        while self.payers.waits_for(process.port) and time.monotonic() < until:
            self._listen(TURN)

    def _turn(self, process: Process | None) -> None:
        """The payer comes, if it waits for no answer there and has none that is final."""
        if process is not None and not self.payers.waits_for(process.port):
            if self.plan.sweeps == "in the shop":
                self.payers.run_errand(process.port, "/sweep")
            if not self._has_final_answer():
                self.payers.ask(process.port)
        self._listen(TURN)

    def _listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for use in self.payers.listen(left):
                self._note(use)

    def _note(self, use: Use) -> None:
        got = Received(use.status, use.code, use.content, use.whole, use.body.decode("latin-1"), use.receipt)
        if got.content or got.status == 402:
            got.statuses = self.service.statuses()
        self.received.append(got)

    def _has_final_answer(self) -> bool:
        return any((got.content and got.whole) or got.status == 402 for got in self.received)

    def _is_final(self) -> bool:
        return not any(state in UNFINISHED for state in self._rows(self.service.statuses()).values())

    # Evidence

    def _evidence(self) -> Evidence:
        """When everybody is dead and the service has nothing more to do."""
        for process in self.processes:
            process.kill()
        self._listen(TURN)
        until = time.monotonic() + PATIENCE
        while (records := self.service.records())["open"] and time.monotonic() < until:
            time.sleep(TURN)
        return Evidence(
            records["transactions"],
            records["calls"],
            self._executions(),
            self.received,
            self._rows(records["transactions"]),
        )

    def _executions(self) -> list[str]:
        if not self.life.executions.exists():
            return []
        return [json.loads(line)["transaction"] for line in self.life.executions.read_text().splitlines()]

    def _rows(self, transactions: dict[str, str]) -> dict[str, str | None]:
        return stores.states(self.life.journal, f"test {self.service.url}", list(transactions))
