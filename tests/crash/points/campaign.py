"""All trials of a campaign: which are still to be run, and what they gave, a JSON line each."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash import stores
from tests.crash.points.kill_points import ALL
from tests.crash.points.plan import Trial
from tests.crash.points.pool import Lanes
from tests.support.lines import read_lines

LOG = "trials.jsonl"


@dataclass(frozen=True)
class Campaign:
    kinds: Sequence[str]
    points: Sequence[str]
    trials: int
    seed: int
    workers: int
    folder: Path
    broken: str = ""
    only: Trial | None = None

    @property
    def planned(self) -> list[Trial]:
        """Every point's first trial, then every point's second, and so on."""
        if self.only is not None:
            return [self.only]
        numbers = [(number, point) for number in range(self.trials) for point in self.points]
        return [
            Trial(kind, point, number, self.seed, self.broken)
            for number, point in numbers
            for kind in self.kinds
        ]

    @property
    def left(self) -> list[Trial]:
        """Those that are not in the folder's log yet."""
        over = {said["trial"] for said in self.said}
        return [trial for trial in self.planned if trial.name not in over]

    def run(self, tell: Callable[[dict[str, Any]], object]) -> None:
        """What is left of it; `tell` hears of each trial."""
        left = self.left
        with ExitStack() as stack, (self.folder / LOG).open("a") as log:
            urls = {kind: stack.enter_context(stores.serving(kind)) for kind in self.kinds}
            lanes = stack.enter_context(Lanes(min(self.workers, len(left)), self.folder, urls))
            for said in lanes.run(left):
                print(json.dumps(said), file=log, flush=True)
                tell(said)

    @property
    def said(self) -> list[dict[str, Any]]:
        """What trials of this campaign gave so far."""
        lines = read_lines(self.folder / LOG)
        return [said for said in lines if said["seed"] == self.seed and said["broken"] == self.broken]


def chosen_points(wanted: str) -> list[str]:
    """Those whose name contains one of these words, separated by commas; all for none."""
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    return [point.name for point in ALL if not words or any(word in point.name for word in words)]


def one(name: str, seed: int, broken: str) -> Trial:
    """A trial by its name, such as `sqlite:record_transaction:after:17`."""
    kind, _, rest = name.partition(":")
    point, _, number = rest.rpartition(":")
    if point not in {each.name for each in ALL} or kind not in stores.STORES:
        raise SystemExit(
            f"there is no trial {name!r}: JOURNAL:POINT:NUMBER, such as sqlite:record_transaction:after:17"
        )
    return Trial(kind, point, int(number), seed, broken)
