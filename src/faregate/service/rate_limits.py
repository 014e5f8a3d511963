"""Token buckets: one for each valid API key, and one for each address that sends none. For one process."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import Final

from faregate.core.models import Headers
from faregate.rules.http import HttpError, read_bearer

_MAX_BUCKETS: Final = 10_000
_BURST_SECONDS: Final = 2
"""A bucket holds what flows in during this time."""
_UNDECIDED: Final = (404, 405)
"""May be answered before the key is looked at: another path or method. So may 5xx: no database."""


class _Buckets:
    """Buckets by name, each full at first. The one that was used the longest time ago is forgotten first."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._most = max(1.0, rate * _BURST_SECONDS)
        # The tokens of each, and since when it has them.
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def __contains__(self, name: bytes) -> bool:
        return name in self._buckets

    def take(self, name: bytes) -> int:
        """Take a token; return 0, or the whole seconds until there is one."""
        if not self._rate:
            return 0
        tokens = self._fill(name)
        if tokens < 1:
            return math.ceil((1 - tokens) / self._rate)
        self._put(name, tokens - 1)
        return 0

    def give_back(self, name: bytes) -> None:
        if self._rate:
            self._put(name, min(self._most, self._fill(name) + 1))

    def add(self, name: bytes) -> None:
        """Make a full bucket unless there is one."""
        if name not in self._buckets:
            self._put(name, self._most)

    def remove(self, name: bytes) -> None:
        self._buckets.pop(name, None)

    def _fill(self, name: bytes) -> float:
        tokens, filled_at = self._buckets.get(name, (self._most, 0.0))
        return min(self._most, tokens + (self._clock() - filled_at) * self._rate)

    def _put(self, name: bytes, tokens: float) -> None:
        self._buckets[name] = tokens, self._clock()
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that was counted.

    `wait` is 0 if it may go on, else after how many whole seconds it may be repeated. `key` is the hash of
    the key that it sent. `address` names the bucket of its address, None if its key has a bucket. `key_id` is
    the id of a key that was accepted before.
    """

    wait: int
    key: bytes | None
    address: bytes | None
    key_id: str | None = None


class RateLimits:
    """Limits of requests a second; 0 is no limit. `clock` is monotonic, in seconds. Thread-safe.

    A key has a bucket of its own once a call with it was accepted. Any other call takes from the bucket of
    its address, and gives back if its key is valid: so invented keys take no memory, and do not limit
    clients at another address. Keys are remembered by their hash.
    """

    def __init__(self, per_key: float, anonymous: float, clock: Callable[[], float]) -> None:
        self._keys, self._addresses = _Buckets(per_key, clock), _Buckets(anonymous, clock)
        self._key_ids: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def take(self, headers: Headers, address: str) -> Ticket:
        """Count a call with these headers from this address."""
        key = _hash_key(headers)
        with self._lock:
            if key is not None and key in self._keys:
                return Ticket(self._keys.take(key), key, None, self._key_ids.get(key))
            strangers = _hash_network(address)
            return Ticket(self._addresses.take(strangers), key, strangers)

    def learn(self, ticket: Ticket, status: int, key_id: str | None = None) -> None:
        """Remember from the answer whether the key of this call is valid, and its id."""
        with self._lock:
            if ticket.key is None or status in _UNDECIDED or status >= 500:
                return
            if status == 401:
                self._keys.remove(ticket.key)
                return
            self._keys.add(ticket.key)
            if key_id is not None:
                self._remember_id(ticket.key, key_id)
            if ticket.address is not None:
                self._addresses.give_back(ticket.address)

    def _remember_id(self, key: bytes, key_id: str) -> None:
        self._key_ids[key] = key_id
        if len(self._key_ids) > _MAX_BUCKETS:
            self._key_ids.popitem(last=False)


def _hash_key(headers: Headers) -> bytes | None:
    # However it is spelt: one key has one bucket.
    try:
        return sha256(read_bearer(headers).encode()).digest()
    except HttpError:
        return None


def _hash_network(address: str) -> bytes:
    """Return the same for the addresses of one caller: a network of IPv6 has more than could be counted."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a unix socket has none
        return b""
    return parsed.packed[:8] if isinstance(parsed, IPv6Address) else parsed.packed
