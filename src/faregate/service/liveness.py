"""Whether the loops of a process go round: its workers, and what it repeats."""

from collections.abc import Callable, Mapping
from typing import Final

LATE_SECONDS: Final = 300.0
"""Longer than any round takes, and than any pause between two. A round that fails is finished too."""


class Liveness:
    """When each loop last finished a round. `clock` is monotonic, in seconds. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._finished_at: dict[str, float] = {}

    def watch(self, name: str) -> Callable[[], None]:
        """Watch a loop that begins now; return what it calls after each round."""

        def observe_round() -> None:
            self._finished_at[name] = self._clock()

        observe_round()
        return observe_round

    def measure(self) -> Mapping[str, float]:
        """Return the seconds since each loop last finished a round."""
        now = self._clock()
        return {name: now - finished_at for name, finished_at in [*self._finished_at.items()]}

    def find_late(self) -> str:
        """Name the loops that have finished no round lately; empty if there are none."""
        late = [
            f"{name} has finished no round for {seconds:.0f} seconds"
            for name, seconds in self.measure().items()
            if seconds > LATE_SECONDS
        ]
        return "; ".join(late)
