"""Create a journal from its URL, importing only the store it names; adapt a journal to event loops."""

from collections.abc import Sequence
from typing import Protocol, TypedDict, runtime_checkable

from faregate.core.interfaces import Journal
from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from faregate.journals.policy import JournalContext, JournalPolicy

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
EXAMPLES = "'memory:', 'sqlite:///absolute/path', 'redis://host:6379/0' or 'postgresql://user@host/database'"


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

                return SqliteJournal(_parse_sqlite_path(url.partition(":")[2]), **options)
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
    well_formed = _parse_sqlite_path(rest) if scheme == "sqlite" else rest.startswith("//")
    if url == MEMORY or (scheme in EXTRAS and well_formed):
        return
    # A URL with a user or a query may hold a password.
    shown = f"{url!r}" if not {"@", "?"} & set(url) else f"'{scheme}:...'"
    raise ConfigurationError(
        f"{setting} is {shown}, which is not a journal. Set it to {EXAMPLES}, "
        "or give the paywall a journal object of your own."
    )


def _parse_sqlite_path(rest: str) -> str:
    """Parse `sqlite:///absolute/path` (or four slashes, as SQLAlchemy has it) or `sqlite:relative/path`.

    Return "" for anything else.
    """
    rest = rest.removeprefix("/") if rest.startswith("////") else rest
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    return "" if path.startswith("//") or not path.strip("/") or path == ":memory:" else path
