"""Create a journal from its URL, importing only the store it names; adapt a journal to event loops."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypedDict, runtime_checkable

from faregate.core.interfaces import Journal
from faregate.errors import ConfigurationError
from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal

MEMORY = "memory:"
EXTRAS = {
    "sqlite": "sqlite",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
    "postgresql": "postgres",
    "postgres": "postgres",
}
"""The scheme of a URL, and the extra of faregate that its journal needs."""
SERVERS: Final = frozenset(EXTRAS) - {"sqlite", "unix"}
"""The schemes of journals that several machines can share."""
EXAMPLES = "'memory:', 'sqlite:////absolute/path', 'redis://host:6379/0' or 'postgresql://user@host/database'"
_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class JournalContext:
    """The arguments that a paywall passes to the factory of its journal.

    `namespace` keeps the rows of one key environment and service apart; `seller` tells API keys apart.
    """

    namespace: str
    seller: str
    policy: JournalPolicy


class Options(TypedDict):
    """Arguments that every persistent journal takes."""

    keys: Sequence[bytes]
    namespace: str
    seller: str
    policy: JournalPolicy


def journal_from_url(
    url: str, keys: Sequence[bytes], context: JournalContext, setting: str = "FAREGATE_JOURNAL"
) -> Journal:
    """Create the journal that `url` names; nothing is opened yet. Raises `ConfigurationError`.

    `setting` is what the seller calls it.
    """
    check_url(url, setting)
    if url == MEMORY:
        return MemoryJournal(namespace=context.namespace, policy=context.policy)
    scheme = url.partition(":")[0]
    extra = EXTRAS[scheme]
    options = Options(keys=keys, namespace=context.namespace, seller=context.seller, policy=context.policy)
    try:
        match extra:
            case "sqlite":
                from faregate.journals.sqlite import SqliteJournal

                return SqliteJournal(_find_sqlite_file(url, setting), **options)
            case "redis":
                from faregate.journals.redis import RedisJournal

                return RedisJournal(url, **options)
            case _:
                from faregate.journals.postgres import PostgresJournal

                return PostgresJournal(url, **options)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting} is {scheme}:..., which needs more packages: pip install 'faregate[{extra}]'"
        ) from error


@runtime_checkable
class SupportsAsync(Protocol):
    """A blocking journal that has a form for event loops."""

    def as_async(self) -> Journal: ...


def as_async(journal: Journal) -> Journal:
    """Return the journal to use in an event loop: `journal` itself, unless it blocks."""
    return journal.as_async() if isinstance(journal, SupportsAsync) else journal


def check_url(url: str, setting: str) -> None:
    """Raises `ConfigurationError` if no journal has such a URL."""
    scheme, _, rest = url.partition(":")
    well_formed = _parse_sqlite_path(url) if scheme == "sqlite" else rest.startswith("//")
    if url == MEMORY or (scheme in EXTRAS and well_formed):
        return
    # A URL with a user or a query may hold a password.
    shown = f"{url!r}" if not {"@", "?"} & set(url) else f"'{scheme}:...'"
    path = rest.lstrip("/")
    if scheme == "sqlite" and _parse_sqlite_path(_SQLITE + path) and "@" not in path:
        raise ConfigurationError(
            f"{setting} is {shown}, which is not a journal. Set it to '{_SQLITE}{path}' for a path from the "
            f"current folder, or to '{_SQLITE}/{path}' for an absolute path."
        )
    raise ConfigurationError(
        f"{setting} is {shown}, which is not a journal. Set it to {EXAMPLES}, "
        "or give the paywall a journal object of your own."
    )


def _parse_sqlite_path(url: str) -> str:
    """Parse `sqlite:///relative/path` or `sqlite:////absolute/path`, which SQLAlchemy reads in the same way.

    Return "" for any other URL. SQLAlchemy reads options after a `?`: there are none here.
    """
    path = url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else ""
    is_file = path.strip("/") and not path.startswith("//") and path != ":memory:" and "?" not in path
    return path if is_file else ""


def _find_sqlite_file(url: str, setting: str) -> str:
    """Return the path in a well-formed URL. Raises `ConfigurationError` if it seems meant to be absolute.

    A new journal in another place than the old one has forgotten what payers are owed.
    """
    path = _parse_sqlite_path(url)
    relative, absolute = os.path.join(os.getcwd(), path), os.path.join("/", path)
    if relative == absolute or os.path.exists(relative):  # an absolute path is joined to nothing
        return path
    if os.path.isfile(absolute):
        raise ConfigurationError(
            f"{setting} is {url!r}. With three slashes that is {relative}, which does not exist, but "
            f"{absolute} does. Set it to '{_SQLITE}{absolute}' to use that journal, or to "
            f"'{_SQLITE}{relative}' to begin a new one."
        )
    folder = os.path.dirname(relative)
    if not os.path.isdir(folder):
        raise ConfigurationError(
            f"{setting} is {url!r}. With three slashes that is {relative}, in a folder that does not exist. "
            f"Set it to '{_SQLITE}{absolute}' if you mean {absolute}, or make {folder} first."
        )
    return path
