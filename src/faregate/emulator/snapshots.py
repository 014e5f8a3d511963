"""Snapshots of one world by name: state documents, kept in memory to go back to. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from faregate.emulator.worldkeys import is_name
from faregate.errors import Misconfigured

MAX_SNAPSHOTS: Final = 100


class Snapshots:
    """In the order they were taken."""

    def __init__(self) -> None:
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._taken = 0

    @property
    def names(self) -> list[str]:
        return list(self._documents)

    def put(self, name: str | None, document: Mapping[str, Any]) -> str:
        """Under this name or a new one; another of the name is replaced. `Misconfigured` if it cannot be."""
        name = self._name(name)
        self._documents.pop(name, None)
        self._documents[name] = document
        return name

    def _name(self, name: str | None) -> str:
        while name is None:
            self._taken += 1
            if f"snapshot-{self._taken}" not in self._documents:
                name = f"snapshot-{self._taken}"
        if not is_name(name):
            raise Misconfigured("the name of a snapshot has 1 to 100 letters, digits, _ and -")
        if name not in self._documents and len(self._documents) >= MAX_SNAPSHOTS:
            raise Misconfigured(f"there are {MAX_SNAPSHOTS} snapshots already: take one of their names again")
        return name

    def get(self, name: str) -> Mapping[str, Any]:
        if name not in self._documents:
            there = ", ".join(self._documents) or "none yet"
            raise Misconfigured(f"there is no snapshot {name!r}; there are: {there}")
        return self._documents[name]

    def clear(self) -> None:
        self._documents.clear()
        self._taken = 0
