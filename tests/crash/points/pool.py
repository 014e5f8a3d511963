"""Lanes: processes that run one trial after another, side by side, all forked from one."""

import gc
import json
import selectors
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from faregate.transports.connections import make_ssl_context
from tests.crash.points import seller, service
from tests.crash.points.plan import Trial
from tests.crash.points.trial import run_trial
from tests.crash.points.trial_setup import TrialPlace
from tests.support import processes


@dataclass
class Lane:
    process: processes.Process
    talk: socket.socket
    doing: Trial | None = None


class Lanes:
    """So many of them, and the service that all use. Ends them all when the block ends."""

    def __init__(self, count: int, folder: Path, stores: dict[str, str]) -> None:
        self._count = count
        self._folder = folder
        self._stores = stores
        self._lanes: list[Lane] = []

    def __enter__(self) -> "Lanes":
        _load_for_children(self._stores)
        gc.freeze()  # what is never looked at again is never copied for a child
        processes.lifeline()
        self._service = processes.serving(service.run)
        for _ in range(self._count):
            ours, theirs = socket.socketpair()
            foreign = [ours, *(lane.talk for lane in self._lanes)]
            process = processes.fork(partial(self._work, theirs), foreign)
            theirs.close()
            self._lanes.append(Lane(process, ours))
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.talk.close()
            lane.process.kill()
        self._service.kill()

    def run(self, trials: Iterable[Trial]) -> Iterator[dict[str, Any]]:
        """What each trial gave, as they end."""
        left = iter(trials)
        with selectors.DefaultSelector() as selector:
            for lane in self._lanes:
                if _give(lane, left):
                    selector.register(lane.talk, selectors.EVENT_READ, lane)
            while selector.get_map():
                for key, _ in selector.select():
                    lane = key.data
                    yield _take(lane)
                    if not _give(lane, left):
                        selector.unregister(lane.talk)

    def _work(self, talk: socket.socket) -> None:
        processes.lifeline()
        with talk.makefile("rw") as lines:
            for line in lines:
                trial = Trial(**json.loads(line))
                place = TrialPlace(self._service.port, self._folder, self._stores.get(trial.kind, ""))
                print(json.dumps(_tried(trial, place)), file=lines, flush=True)


def _load_for_children(kinds: Iterable[str]) -> None:
    """Import and make, before the forks, what each seller would import and make when it starts."""
    make_ssl_context()
    modules = ("encodings.idna", "faregate.transports.async_connections", "uvicorn.loops.asyncio")
    for module in (*modules, *(f"faregate.journals.{kind}" for kind in kinds)):
        import_module(module)
    seller.make_server_config(lambda *_: None).load()


def _give(lane: Lane, left: Iterator[Trial]) -> bool:
    lane.doing = next(left, None)
    if lane.doing is not None:
        lane.talk.sendall(json.dumps(asdict(lane.doing)).encode() + b"\n")
    return lane.doing is not None


def _take(lane: Lane) -> dict[str, Any]:
    with lane.talk.makefile("r") as lines:
        line = lines.readline()
    if not line:
        sys.exit(f"the lane of {lane.doing} ended")
    said: dict[str, Any] = json.loads(line)
    return said


def _tried(trial: Trial, place: TrialPlace) -> dict[str, Any]:
    try:
        return run_trial(trial, place)
    except Exception:
        failure = {"error": traceback.format_exc(), "deaths": [], "wrongs": {}, "counts": {}}
        return {"trial": trial.name, "seed": trial.seed, "broken": trial.broken, **failure}
