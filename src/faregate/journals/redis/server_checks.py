"""Check that a Redis server can be trusted with a journal, whenever a connection is made."""

import logging
from collections.abc import Generator

from redis.exceptions import ClusterCrossSlotError, ClusterDownError, MovedError, ResponseError

from faregate.errors import ConfigurationError
from faregate.journals.redis.connections import Ask
from faregate.logs import log

_SAFE = "for the promise that SQLite gives, set appendonly yes and appendfsync always"
_LOST = "a payment of that time is then unknown, or its work runs a second time"
_TAKEN_OVER = f"a replica has taken over; it may not have what was written last, and {_LOST}"
_UNKNOWN = "whether it forgets payments to make room could not be checked"
_WINDOWS = {"everysec": "about the last second", "no": "some of the last minute"}


class ServerCheck:
    """Looks at every server that a connection is made to: after a fail-over it is another one."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._warned: set[str] = set()
        self._history = ""

    def look(self, ask: Ask) -> None:
        """Check a server that a connection was made to, and warn once of what it may lose.

        Raises `ConfigurationError` for one that may forget rows, or move them away.
        """
        facts = {**_info(ask), **_config(ask)}
        if facts.get("redis_mode") == "sentinel":
            raise ConfigurationError(
                f"The Redis at {self._place} is a Sentinel, which keeps nothing: name the primary that it "
                "watches."
            )
        _refuse_cluster(ask, self._place)
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"The Redis at {self._place} may forget payments to make room: its maxmemory-policy is "
                f"{policy}. Set maxmemory-policy noeviction, or name another server for the journal."
            )
        for weakness in _weaknesses(facts):
            if weakness not in self._warned:
                self._warned.add(weakness)
                log(logging.WARNING, "the journal at %s: %s", self._place, weakness)
        self._follow(facts.get("master_replid", ""), facts.get("master_replid2", ""))

    def _follow(self, history: str, before: str) -> None:
        """Redis gives every run of writes a name. Who takes over has a new one, and knows the last."""
        if self._history not in ("", history) and before == self._history:
            log(logging.WARNING, "the journal at %s: %s", self._place, _TAKEN_OVER)
        self._history = history or self._history


def _refuse_cluster(ask: Ask, place: str) -> None:
    """Two keys that are in no slot together: whoever may read may ask that."""
    try:
        ask("EXISTS", "faregate:{one}", "faregate:{other}")
    except (ClusterCrossSlotError, ClusterDownError, MovedError):
        raise ConfigurationError(
            f"The Redis at {place} is part of a cluster, which moves keys from node to node while they are "
            "in use. Name a server for the journal that is in none, or a PostgreSQL database."
        ) from None


def _weaknesses(facts: dict[str, str]) -> Generator[str]:
    aof, fsync = facts.get("aof_enabled"), facts.get("appendfsync")
    if "maxmemory_policy" not in facts:
        yield f"{_UNKNOWN}: it must have maxmemory-policy noeviction"
    if aof == "0":
        yield f"appendonly is off, so a stop loses what came after the last snapshot: {_LOST}; {_SAFE}"
    elif aof is None or fsync is None:
        yield f"what a power cut loses could not be checked; {_SAFE}"
    elif fsync != "always":
        lost = _WINDOWS.get(fsync, "what was not on its disk yet")
        yield f"appendfsync is {fsync}, so a power cut loses {lost}: {_LOST}; {_SAFE}"


def _info(ask: Ask) -> dict[str, str]:
    """An ACL may forbid it."""
    try:
        lines = ask("INFO").decode().splitlines()
    except ResponseError:
        return {}
    found = (line.partition(":") for line in lines)
    return {name: value for name, _, value in found}


def _config(ask: Ask) -> dict[str, str]:
    """Many providers forbid it."""
    try:
        name, value = ask("CONFIG", "GET", "appendfsync")
    except (ResponseError, ValueError):
        return {}
    return {name.decode(): value.decode()}
