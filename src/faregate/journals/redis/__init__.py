"""The journal in Redis: for many machines that share one server.

It is as durable as the server: with `appendfsync always` a power cut loses nothing. Replication is
asynchronous, so a fail-over to a replica may lose the last writes.
"""

from collections.abc import Callable, Sequence

from faregate.journals.clock import ServerClock
from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.persistent import PersistentJournal

try:
    from faregate.journals.redis.client import ScriptClient
    from faregate.journals.redis.store import RedisStore
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "A Redis journal needs redis: pip install 'faregate[redis]'", name=error.name
    ) from error

__all__ = ["RedisJournal"]


class RedisJournal(PersistentJournal):
    """Keep the journal in the Redis server at `url` (redis://, rediss:// or unix://).

    A call waits up to `timeout` seconds for its turn, and about as long for the server: half of it for each
    of two tries. `clock` is the server's time by default. Nothing is opened before the first call. Raises
    `ConfigurationError`: here for an invalid URL, and on connecting to a server that may evict rows, is part
    of a cluster, or is a Sentinel.
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
    ) -> None:
        client = ScriptClient(url, namespace, timeout)
        super().__init__(
            RedisStore(client),
            keys=keys,
            seller=seller,
            policy=policy,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock or ServerClock(client.get_time),
        )
