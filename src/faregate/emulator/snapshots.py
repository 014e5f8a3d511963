"""Snapshots of one world by name: state documents, kept in memory to go back to. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from faregate.emulator.assertions import Judging
from faregate.emulator.calls import Mark
from faregate.emulator.clock import WorldClock
from faregate.emulator.faults.rules import Faults
from faregate.emulator.persistence.dump import WorldCopy, copied, exported, surroundings
from faregate.emulator.persistence.load import fill, surround
from faregate.emulator.persistence.schema import StateDocument, read_document
from faregate.errors import ConfigurationError
from faregate.service.app import Service
from faregate.service.builtin import is_name
from faregate.service.identifiers import Challenges, Ids, SeededChallenges
from faregate.service.payments import Payments

MAX_SNAPSHOTS: Final = 100


class Snapshot(NamedTuple):
    """The state document of a world, as text, and where its diary was."""

    document: str
    mark: Mark


class Snapshots:
    """In the order they were taken."""

    def __init__(self) -> None:
        self._kept: dict[str, Snapshot] = {}
        self._taken = 0

    @property
    def names(self) -> list[str]:
        return list(self._kept)

    def put(self, name: str | None, snapshot: Snapshot) -> str:
        """Under this name or a new one; another of the name is replaced.

        `ConfigurationError` if it cannot be.
        """
        name = self._name(name)
        self._kept.pop(name, None)
        self._kept[name] = snapshot
        return name

    def _name(self, name: str | None) -> str:
        while name is None:
            self._taken += 1
            if f"snapshot-{self._taken}" not in self._kept:
                name = f"snapshot-{self._taken}"
        if not is_name(name):
            raise ConfigurationError("the name of a snapshot has 1 to 100 letters, digits, _ and -")
        if name not in self._kept and len(self._kept) >= MAX_SNAPSHOTS:
            raise ConfigurationError(
                f"there are {MAX_SNAPSHOTS} snapshots already: take one of their names again"
            )
        return name

    def get(self, name: str) -> Snapshot:
        if name not in self._kept:
            there = ", ".join(self._kept) or "none yet"
            raise ConfigurationError(f"there is no snapshot {name!r}; there are: {there}")
        return self._kept[name]

    def clear(self) -> None:
        self._kept.clear()
        self._taken = 0


class Rewinding(Judging):
    """State goes back, but not the diary: calls that were made are `undone` then. `reset` forgets them."""

    clock: WorldClock
    payments: Payments
    faults: Faults

    def __init__(self, ids: Ids, challenges: Challenges, new_service: Callable[[], Service]) -> None:
        """Comes last: clock, payments and faults are there by then."""
        super().__init__()
        self._ids = ids
        self._challenges = challenges
        self._new_service = new_service
        self._service = new_service()
        self._beginning = surroundings(self._copy(self._service))
        self._snapshots = Snapshots()

    def export(self) -> dict[str, Any]:
        """The state document: all that happened here, as plain JSON. It has payers' signatures in it."""
        found: dict[str, Any] = json.loads("".join(self.written()))
        return found

    def written(self) -> Iterator[str]:
        """The same as text, in pieces; the world goes on meanwhile."""
        return exported(self.look(lambda service, _: self._copy(service)))

    def seed(self, document: StateDocument | Mapping[str, Any] | str | bytes) -> None:
        """From now on the world is as this state document says, its clock too (see `document.py`).

        What it leaves out is as it was set up; all calls so far are undone. `ConfigurationError` names the
        place of what does not fit, and then nothing has changed.
        """
        found = read_document(document)
        with self._lock:
            self._go_to(found)
            self._diary.go_back((0, ()))

    def reset(self) -> None:
        """Back to the world as it was set up, its clock, ids and faults too. Calls and snapshots go."""
        with self._lock:
            self._go_to(self._beginning)
            self._forget()
            self._snapshots.clear()

    def snapshot(self, name: str | None = None) -> str:
        """Remembers the world as it is now; gives the name. One of the same name is replaced."""
        copy, mark = self.look(lambda service, diary: (self._copy(service), diary.mark()))
        taken = Snapshot("".join(exported(copy)), mark)
        with self._lock:
            return self._snapshots.put(name, taken)

    @property
    def snapshots(self) -> list[str]:
        """The names of all snapshots, the latest last."""
        return self._snapshots.names

    def restore(self, name: str) -> None:
        """Rewinds everything to a snapshot: clock, ids, balances, transactions, faults.

        Calls stay known. Those that came after it are `undone`: with a seed, ids that they were about come
        again.
        """
        with self._lock:
            taken = self._snapshots.get(name)
            self._go_to(read_document(taken.document))
            self._diary.go_back(taken.mark)

    def _go_to(self, document: StateDocument) -> None:
        service = self._new_service()
        fill(service.books, document)
        surround(document, self._beginning, self.clock, self._ids, self.payments, self.faults)
        if document.challenges is not None and isinstance(self._challenges, SeededChallenges):
            self._challenges.restore(document.challenges)
        self._service = service

    def _copy(self, service: Service) -> WorldCopy:
        return copied(service.books, self.clock, self._ids, self._challenges, self.payments, self.faults)
