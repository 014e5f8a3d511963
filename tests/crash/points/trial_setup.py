"""Who and what takes part in one trial: its processes, its payer, and what is known of them."""

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from faregate.emulator import Wallet
from tests.crash import stores
from tests.crash.points import seller
from tests.crash.points.checker import UNFINISHED, Evidence, Received
from tests.crash.points.kill_points import Death
from tests.crash.points.payers import Payers, Use
from tests.crash.points.plan import Plan, Trial
from tests.crash.points.seller import Life
from tests.crash.points.service_client import ServiceAt
from tests.support.lines import read_lines
from tests.support.processes import Process, StartSignal, fork, serving

PATIENCE = 15.0
"""Seconds that are enough for anything that comes at all."""
TURN = 0.04


@dataclass(frozen=True)
class TrialPlace:
    """Where trials take place: the service's port, a folder, and the store (a URL, or empty for a file)."""

    service: int
    folder: Path
    store: str = ""


@dataclass
class TrialSetup:
    plan: Plan
    life: Life
    service: ServiceAt
    payers: Payers
    received: list[Received] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)

    @classmethod
    def create(cls, trial: Trial, plan: Plan, place: TrialPlace) -> "TrialSetup":
        name = "".join(letter if letter.isalnum() else "_" for letter in trial.name)
        folder = place.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        service = ServiceAt(place.service, f"{name}_{time.monotonic_ns()}")
        journal = stores.place_of(trial.kind, place.store, folder).journal
        life = Life(journal, service.url, folder / "executions", folder / "said", broken=trial.broken)
        proof = Wallet().pay(service.begin(plan.faults, plan.settlement))
        return cls(plan, life, service, Payers(proof, f"{seller.PATH}?work={plan.work}"))

    def close(self) -> None:
        self.payers.leave()
        self.end_all()
        self.service.forget()

    # Processes

    def seller(self, death: Death | None = None, visit: int = 1) -> Process:
        life = replace(self.life, death=death, visit=visit)
        return self._known(serving(partial(seller.serve, life), self.payers.sockets), death, visit)

    def sweeper(self, death: Death | None = None) -> Process:
        life = replace(self.life, death=death)
        with StartSignal() as start:
            process = fork(partial(start.then, partial(seller.sweep, life)), self.payers.sockets)
            return self._known(process, death, 1)

    def _known(self, process: Process, death: Death | None, visit: int) -> Process:
        self.processes.append(process)
        if death is not None and death.by_the_service:
            self.service.kill_when_acted(death.at.partition(":")[0], visit, process.pid)
        return process

    def end_all(self) -> None:
        for process in self.processes:
            process.kill()

    # Payers

    def turn(self, process: Process | None) -> None:
        """The payer comes, if it waits for no answer there and has none that is final."""
        if process is not None and not self.payers.waits_for(process.port):
            if self.plan.sweeps == "in the seller":
                self.payers.run_errand(process.port, "/sweep")
            if not self.has_final_answer():
                self.payers.ask(process.port)
        self.listen(TURN)

    def listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for use in self.payers.listen(left):
                self._note(use)

    def _note(self, use: Use) -> None:
        got = Received(use.status, use.code, use.content, use.whole, use.body.decode("latin-1"), use.receipt)
        if got.content or got.status == 402:
            got.statuses = self.service.statuses()
        self.received.append(got)

    def has_final_answer(self) -> bool:
        return any((got.content and got.whole) or got.status == 402 for got in self.received)

    # Records

    def is_final(self) -> bool:
        return not any(state in UNFINISHED for state in self._rows(self.service.statuses()).values())

    def evidence(self) -> Evidence:
        """When everybody is dead and the service has nothing more to do."""
        self.end_all()
        self.listen(TURN)
        until = time.monotonic() + PATIENCE
        while (records := self.service.records())["open"] and time.monotonic() < until:
            time.sleep(TURN)
        transactions = records["transactions"]
        rows = self._rows(transactions)
        return Evidence(transactions, records["calls"], self._executions(), self.received, rows)

    def _executions(self) -> list[str]:
        return [line["transaction"] for line in read_lines(self.life.executions)]

    def _rows(self, transactions: dict[str, str]) -> dict[str, str | None]:
        return stores.row_states(self.life.journal, f"test {self.service.url}", list(transactions))
