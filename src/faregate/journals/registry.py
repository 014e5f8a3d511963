"""Make a journal from `FAREGATE_JOURNAL`. Only the named one is imported."""

from collections.abc import Sequence
from typing import TypedDict

from faregate.core.interfaces import Journal
from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from faregate.journals.policy import JournalContext, JournalPolicy

MEMORY = "memory:"
SQLITE = "sqlite:"
REDIS = ("redis:", "rediss:", "unix:")
POSTGRES = ("postgresql:", "postgres:")
NAMES = "'memory:', 'sqlite:///absolute/path', 'redis://host:6379/0' or 'postgresql://user@host/database'"


class Options(TypedDict):
    """What every stored journal is told."""

    keys: Sequence[bytes]
    namespace: str
    seller: str
    policy: JournalPolicy


def named_journal(name: str, keys: Sequence[bytes], context: JournalContext) -> Journal:
    """The journal called so; nothing is opened yet. Raises `ConfigurationError`."""
    check(name)
    if name == MEMORY:
        return MemoryJournal(namespace=context.namespace, policy=context.policy)
    scheme = name.partition(":")[0]
    extra = "sqlite" if scheme == "sqlite" else "redis" if f"{scheme}:" in REDIS else "postgres"
    make = {"sqlite": _sqlite, "redis": _redis, "postgres": _postgres}[extra]
    try:
        options = Options(
            keys=keys, namespace=context.namespace, seller=context.seller, policy=context.policy
        )
        return make(name, options)
    except ModuleNotFoundError as error:
        needs = f"FAREGATE_JOURNAL={scheme}: needs packages of its own: pip install 'faregate[{extra}]'"
        raise ConfigurationError(needs) from error


def check(name: str) -> None:
    """Whether a journal could be called so. Raises `ConfigurationError`."""
    scheme, _, rest = name.partition(":")
    known = f"{scheme}:" in (MEMORY, SQLITE, *REDIS, *POSTGRES)
    well_formed = _sqlite_path(rest) if scheme == "sqlite" else rest.startswith("//") or name == MEMORY
    if known and well_formed:
        return
    told = f"{name!r}" if not {"@", "?"} & set(name) else f"'{scheme}:...'"
    raise ConfigurationError(
        f"FAREGATE_JOURNAL is {told}, and no journal is called so. Set it to {NAMES}, "
        "or give the paywall a journal object of your own."
    )


def _sqlite_path(rest: str) -> str:
    """`sqlite:///absolute/path` (or four slashes, as others write it) or `sqlite:relative/path`.

    Empty for anything else.
    """
    rest = rest.removeprefix("/") if rest.startswith("////") else rest
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    return "" if path.startswith("//") or not path.strip("/") or path == ":memory:" else path


def _sqlite(name: str, options: Options) -> Journal:
    from faregate.journals.sqlite import SqliteJournal

    return SqliteJournal(_sqlite_path(name.partition(":")[2]), **options)


def _redis(name: str, options: Options) -> Journal:
    from faregate.journals.redis import RedisJournal

    return RedisJournal(name, **options)


def _postgres(name: str, options: Options) -> Journal:
    from faregate.journals.postgres import PostgresJournal

    return PostgresJournal(name, **options)
