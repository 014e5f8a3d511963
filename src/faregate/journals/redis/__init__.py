"""The journal in Redis: for many machines that share one server. What it promises is what Redis promises:
with `appendfsync always` a power cut loses nothing; a fail-over to a replica may lose the last writes."""

from collections.abc import Callable, Sequence

from faregate.journals.clock import ServerClock
from faregate.journals.persistent import PersistentJournal
from faregate.journals.policy import DEFAULT_POLICY, JournalPolicy

try:
    from faregate.journals.redis.client import ScriptClient
    from faregate.journals.redis.store import RedisStore
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "A Redis journal needs redis: pip install 'faregate[redis]'", name=error.name
    ) from error

__all__ = ["RedisJournal"]


class RedisJournal(PersistentJournal):
    """A `PersistentJournal` in the Redis server at `url` (redis://, rediss:// or unix://).

    `timeout` is how many seconds a call waits for the server. Its time is `clock`, unless another is given.
    Opens nothing until it is used. Raises `ConfigurationError`: now for what is no URL, and when it connects
    to a server that may forget rows to make room, is part of a cluster, or is a Sentinel.
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
        server = ScriptClient(url, namespace, timeout)
        super().__init__(
            RedisStore(server),
            keys=keys,
            seller=seller,
            policy=policy,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock or ServerClock(server.time),
        )
