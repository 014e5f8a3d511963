"""Token buckets: one for each API key, and one for all calls without a valid key. For one process."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Final

from faregate.core.models import Headers, header_values

_MAX_KEYS: Final = 10_000
_BURST_SECONDS: Final = 2
"""A bucket holds what flows in during this time."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float

    def take(self, now: float, rate: float) -> float:
        """Take a token; return the seconds until there is one, 0 if it was taken."""
        most = max(1.0, rate * _BURST_SECONDS)
        self.tokens = min(most, self.tokens + (now - self.filled_at) * rate)
        self.filled_at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / rate


class RateLimits:
    """Limits of requests a second; 0 is no limit. `clock` is monotonic, in seconds. Thread-safe.

    A key has a bucket of its own only after a call with it was accepted: whoever sends invented keys shares
    the bucket of anonymous calls, and fills no memory. Keys are remembered by their hash.
    """

    def __init__(self, per_key: float, anonymous: float, clock: Callable[[], float]) -> None:
        self._per_key, self._anonymous_rate, self._clock = per_key, anonymous, clock
        self._anonymous = _Bucket(max(1.0, anonymous * _BURST_SECONDS), clock())
        self._keys: OrderedDict[bytes, _Bucket] = OrderedDict()
        self._lock = Lock()

    def take(self, headers: Headers) -> int:
        """Count a call; return 0 if it may go on, else after how many whole seconds it may be repeated."""
        name = _hash_credentials(headers)
        with self._lock:
            bucket = self._keys.get(name)
            if bucket is None:
                return _take(self._anonymous, self._clock(), self._anonymous_rate)
            self._keys.move_to_end(name)
            return _take(bucket, self._clock(), self._per_key)

    def learn(self, headers: Headers, status: int) -> None:
        """Remember from the answer whether the key of this call is valid."""
        name = _hash_credentials(headers)
        with self._lock:
            if status == 401:
                self._keys.pop(name, None)
            elif status not in (404, 405) and status < 500 and name not in self._keys:
                # These may be answered before the key is looked at: another path or method, or no database.
                self._keys[name] = _Bucket(max(1.0, self._per_key * _BURST_SECONDS), self._clock())
                if len(self._keys) > _MAX_KEYS:
                    self._keys.popitem(last=False)


def _take(bucket: _Bucket, now: float, rate: float) -> int:
    return math.ceil(bucket.take(now, rate)) if rate else 0


def _hash_credentials(headers: Headers) -> bytes:
    return sha256("\n".join(header_values(headers, "authorization")).encode()).digest()
