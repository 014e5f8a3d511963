"""Check with each new connection that a Redis server can be trusted with a journal."""

import logging
from collections.abc import Generator

from redis.exceptions import ClusterCrossSlotError, ClusterDownError, MovedError, ResponseError

from faregate.errors import ConfigurationError
from faregate.journals.redis.connections import SendCommand
from faregate.logs import log

_SAFE = "for the promise that SQLite gives, set appendonly yes and appendfsync always"
_LOST = "a payment of that time is then unknown, or its work runs a second time"
_TAKEN_OVER = f"a replica has taken over; it may not have what was written last, and {_LOST}"
_UNKNOWN = "whether it forgets payments to make room could not be checked"
_WINDOWS = {"everysec": "about the last second", "no": "some of the last minute"}


class ServerCheck:
    """Checks each server that a connection is made to: after a fail-over it is another one."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._warned: set[str] = set()
        self._history = ""

    def run(self, send: SendCommand) -> None:
        """Warn once of each weakness. Raises `ConfigurationError` if the server may evict or move rows."""
        settings = {**_get_info(send), **_get_config(send)}
        if settings.get("redis_mode") == "sentinel":
            raise ConfigurationError(
                f"The Redis at {self._location} is a Sentinel, which stores nothing: use the address of its "
                "primary."
            )
        _refuse_cluster(send, self._location)
        policy = settings.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"The Redis at {self._location} may forget payments to make room: its maxmemory-policy is "
                f"{policy}. Set maxmemory-policy noeviction, or name another server for the journal."
            )
        for weakness in _find_weaknesses(settings):
            if weakness not in self._warned:
                self._warned.add(weakness)
                log("journal", logging.WARNING, "the journal at %s: %s", self._location, weakness)
        self._warn_of_fail_over(settings.get("master_replid", ""), settings.get("master_replid2", ""))

    def _warn_of_fail_over(self, history: str, before: str) -> None:
        """Compare replication ids: a replica that was promoted has a new one, and knows the one before."""
        if self._history not in ("", history) and before == self._history:
            log("journal", logging.WARNING, "the journal at %s: %s", self._location, _TAKEN_OVER)
        self._history = history or self._history


def _refuse_cluster(send: SendCommand, location: str) -> None:
    """Name two keys of different slots, which a cluster refuses. Any user who may read may ask that."""
    try:
        send("EXISTS", "faregate:{one}", "faregate:{other}")
    except (ClusterCrossSlotError, ClusterDownError, MovedError):
        raise ConfigurationError(
            f"The Redis at {location} is part of a cluster, which moves keys from node to node while they "
            "are in use. Use a Redis server outside of a cluster, or PostgreSQL."
        ) from None


def _find_weaknesses(settings: dict[str, str]) -> Generator[str]:
    aof, fsync = settings.get("aof_enabled"), settings.get("appendfsync")
    if "maxmemory_policy" not in settings:
        yield f"{_UNKNOWN}: it must have maxmemory-policy noeviction"
    if aof == "0":
        yield f"appendonly is off, so a stop loses what came after the last snapshot: {_LOST}; {_SAFE}"
    elif aof is None or fsync is None:
        yield f"what a power cut loses could not be checked; {_SAFE}"
    elif fsync != "always":
        lost = _WINDOWS.get(fsync, "what was not on its disk yet")
        yield f"appendfsync is {fsync}, so a power cut loses {lost}: {_LOST}; {_SAFE}"


def _get_info(send: SendCommand) -> dict[str, str]:
    """Empty if an ACL forbids INFO."""
    try:
        lines = send("INFO").decode().splitlines()
    except ResponseError:
        return {}
    found = (line.partition(":") for line in lines)
    return {name: value for name, _, value in found}


def _get_config(send: SendCommand) -> dict[str, str]:
    """Empty if CONFIG is forbidden, as many providers do."""
    try:
        name, value = send("CONFIG", "GET", "appendfsync")
    except (ResponseError, ValueError):
        return {}
    return {name.decode(): value.decode()}
