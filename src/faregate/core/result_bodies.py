"""A bounded record of the bodies of recent results, by which a copy is known that lost its headers.

A cache between the paywall and a router may keep nothing of a result but its body. Pure.
"""

import zlib
from array import array

_SIZE = 2**18
"""How many bodies are recorded at most, in eight bytes each. A new one may take the place of an old one."""
_SHORTEST = 20
"""A shorter body, such as `{"status": "ok"}`, is likely to be the same without being a copy."""


_SAMPLED = 4096
"""How many bytes at either end of a body are hashed, with its length: a large one takes no longer."""


class ResultBodies:
    """The bodies of the results of one process, as hashes that are keyed by the process.

    `longest` is the length of the longest; 0 as long as there is none.
    """

    longest = 0

    def __init__(self) -> None:
        self._hashes = array("q")

    def note(self, body: bytes) -> None:
        """Record the body of a result."""
        if len(body) < _SHORTEST:
            return
        if not self._hashes:
            self._hashes = array("q", bytes(8 * _SIZE))  # not before something is sold
        key = _hash(body)
        self._hashes[key % _SIZE] = key
        if len(body) > self.longest:
            self.longest = len(body)

    def has(self, body: bytes, encoding: str = "") -> bool:
        """Whether this is the body of a result, or `encoding` (gzip or deflate) of one."""
        if self._has(body):
            return True
        if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
            return False
        try:
            # 32 is added for any header, of gzip or of zlib.
            return self._has(zlib.decompressobj(zlib.MAX_WBITS + 32).decompress(body, self.longest + 1))
        except zlib.error:
            return False

    def _has(self, body: bytes) -> bool:
        if not _SHORTEST <= len(body) <= self.longest:
            return False
        key = _hash(body)
        return self._hashes[key % _SIZE] == key


def _hash(body: bytes) -> int:
    return hash((len(body), body[:_SAMPLED], body[-_SAMPLED:]))
