"""Named snapshots of one emulator, kept in memory."""

from typing import Final, NamedTuple

from faregate.emulator.calls import LogPosition
from faregate.errors import ConfigurationError
from faregate.rules.builtin_account import is_valid_name

MAX_SNAPSHOTS: Final = 100


class StateSnapshot(NamedTuple):
    """A state document as text, and the position in the call log."""

    document: str
    mark: LogPosition


class Snapshots:
    """The snapshots in the order they were taken."""

    def __init__(self) -> None:
        self._kept: dict[str, StateSnapshot] = {}
        self._taken = 0

    @property
    def names(self) -> list[str]:
        return list(self._kept)

    def put(self, name: str | None, snapshot: StateSnapshot) -> str:
        """Store the snapshot under this name or a new one, replacing one of the same name.

        `ConfigurationError` for a bad name, or if there are too many.
        """
        name = self._name(name)
        # Removed first: a name that is taken again becomes the latest.
        self._kept.pop(name, None)
        self._kept[name] = snapshot
        return name

    def _name(self, name: str | None) -> str:
        while name is None:
            self._taken += 1
            if f"snapshot-{self._taken}" not in self._kept:
                name = f"snapshot-{self._taken}"
        if not is_valid_name(name):
            raise ConfigurationError("the name of a snapshot has 1 to 100 letters, digits, _ and -")
        if name not in self._kept and len(self._kept) >= MAX_SNAPSHOTS:
            raise ConfigurationError(
                f"there are {MAX_SNAPSHOTS} snapshots already: take one of their names again"
            )
        return name

    def get(self, name: str) -> StateSnapshot:
        if name not in self._kept:
            there = ", ".join(self._kept) or "none yet"
            raise ConfigurationError(f"there is no snapshot {name!r}; there are: {there}")
        return self._kept[name]

    def clear(self) -> None:
        self._kept.clear()
        self._taken = 0
