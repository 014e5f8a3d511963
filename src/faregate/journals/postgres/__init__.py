"""The journal in a PostgreSQL database: for the processes of all machines that can reach it."""

from collections.abc import Callable, Sequence

try:
    import psycopg as psycopg
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "The PostgreSQL journal needs psycopg: pip install 'faregate[postgres]'", name=error.name
    ) from error

from faregate.journals.clock import ServerClock
from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.postgres.pool import Pool
from faregate.journals.postgres.store import PostgresStore

__all__ = ["PostgresJournal"]


class PostgresJournal(PersistentJournal):
    """Keep the journal in the database at `url` (`postgresql://user@host/database`, as libpq reads it).

    The tables are created on first use, in the first schema of the user's search path. Up to `connections`
    stay open per process. A call waits up to `timeout` seconds for one of them, for a response, or for other
    writers. `clock` is the server's time by default, on which all processes agree. Nothing is opened before
    the first call. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        url: str,
        *,
        keys: Sequence[bytes],
        namespace: str = "",
        seller: str = "",
        policy: JournalPolicy = DEFAULT_POLICY,
        max_rows: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] | None = None,
        timeout: float = 5.0,
        connections: int = 4,
    ) -> None:
        store = PostgresStore(Pool(url, timeout, connections), namespace)
        super().__init__(
            store,
            keys=keys,
            seller=seller,
            policy=policy,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock or ServerClock(store.get_server_time),
        )
