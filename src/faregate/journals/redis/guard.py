"""Whether a Redis server may be trusted with what is owed: looked at when a process first uses it."""

import logging
from collections.abc import Callable, Generator
from typing import Any

from redis.exceptions import ResponseError

from faregate.errors import Misconfigured

Ask = Callable[..., Any]
_log = logging.getLogger("faregate")

_SAFE = "for the promise that SQLite gives, set appendonly yes and appendfsync always"
_LOST = "a payment of that time is then unknown, or its work runs a second time"
_UNKNOWN = "whether it forgets payments to make room could not be checked"
_WINDOWS = {"everysec": "about the last second", "no": "some of the last minute"}


def check(ask: Ask, place: str, warned: set[str]) -> None:
    """Raises `Misconfigured` for a server that may forget rows to make room; warns of other losses, once."""
    facts = {**_info(ask, "memory"), **_info(ask, "persistence"), **_config(ask)}
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise Misconfigured(
            f"The Redis at {place} may forget payments to make room: its maxmemory-policy is {policy}. "
            "Set maxmemory-policy noeviction, or name another server for the journal."
        )
    for weakness in _weaknesses(facts):
        if weakness not in warned:
            warned.add(weakness)
            _log.warning("the journal at %s: %s", place, weakness)


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


def _info(ask: Ask, section: str) -> dict[str, str]:
    """An ACL may forbid it."""
    try:
        lines = ask("INFO", section).decode().splitlines()
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
