"""How the stores of all accounts of one database behave, and what they share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from faregate.rules.ids import Challenges, Ids
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.authorization import PayerCache
from faregate.service.database.catalog import Catalogs
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.lists import Counts


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How stores behave.

    `is_simulated` is whether payments settle on the simulated ledger: at once, or by rules. Otherwise a
    payment is `settling` from its submission on, and rules do not apply.

    `is_synced_by_journal`: the callers have their journal in the same SQLite file. The journal syncs its
    writes before work begins, and thereby the earlier writes of the store. The store itself syncs only the
    write before something is sent, and thereby the outcome in the journal. If a power cut undoes another
    write, the chain still proves what happened.
    """

    is_simulated: bool = False
    expose_execution_id: bool = False
    is_synced_by_journal: bool = False
    attempt_schedule: AttemptSchedule = field(default_factory=AttemptSchedule)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process remembers of one generation of a database."""

    catalogs: Catalogs = field(default_factory=Catalogs)
    counts: Counts = field(default_factory=Counts)
    payers: PayerCache = field(default_factory=PayerCache)


def get_no_owner() -> None:
    """Return no owner."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the stores of all accounts of one database share."""

    database: Database
    stamps: Stamps
    ids: Ids
    challenge: Challenges
    options: StoreOptions = StoreOptions()
    get_owner: Callable[[], str | None] = get_no_owner
    """Gives the id of this process as the owner of attempts; None where no lock shows that it lives."""
    _memory: dict[str, Memory] = field(default_factory=dict[str, Memory])

    def open_memory(self, generation: str) -> Memory:
        """Return what this process remembers of this generation of the database; drop that of others."""
        memory = self._memory.get(generation)
        if memory is None:
            memory = Memory()
            self._memory.clear()
            self._memory[generation] = memory
        return memory

    def forget(self) -> None:
        """Drop what this process remembers."""
        self._memory.clear()
