"""Recognise the body of a result in an answer that no handler made.

A result is marked by a header between its handler and the paywall (`core.withholding.MARK`). A cache
that keeps bodies alone loses the mark, and its key may lead to an address that is free. So each process
remembers the bodies of its last results: an answer for which the framework called no handler, and which has
one of these bodies, is a copy.

To refuse all that no handler made would refuse health checks, static files and caches of free pages as well.
A copy is not found if it was changed or cut, or if another process made the result.
"""

import zlib
from array import array
from collections.abc import Iterator

_SIZE = 2**18
"""How many bodies are recorded at most, in eight bytes each. A new one may take the place of an old one."""
_SHORTEST = 20
"""A shorter body, such as `{"status": "ok"}`, is likely to be the same without being a copy."""
_SAMPLED = 4096
"""How many bytes at either end of a body are hashed, with its length: a large one takes no longer."""
_COMPRESSED = 1024
"""By how many bytes compression may lengthen a body."""
_FORMATS = (zlib.MAX_WBITS + 32, -zlib.MAX_WBITS)
"""gzip or zlib, recognised by their headers; and raw deflate, which some servers send as `deflate`, too."""


class ResultRecord:
    """The bodies of the last results, as hashes, and those of free answers that were no copies.

    An answer without a handler is not a copy of a result if the same body was given without a handler before
    that result was made.
    The hashes are keyed by the process. The record has a fixed size, and needs no lock.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget everything: for tests."""
        self._results, self._free = array("q"), array("q")
        self._lengths, self._beginnings = bytearray(), bytearray()
        self.longest = 0
        """Of all results, in bytes; 0 as long as there is none."""
        self.limit = 0
        """An answer that is longer is not a copy, compressed or not."""

    def add(self, body: bytes) -> None:
        """Remember the body of a result."""
        length = len(body)
        if length < _SHORTEST:
            return
        if not self._results:  # allocated when the first result is sold
            self._lengths, self._beginnings = bytearray(_SIZE), bytearray(_SIZE)
            self._results = array("q", bytes(8 * _SIZE))
        key = _hash(body)
        self._results[key % _SIZE] = key
        self._lengths[length % _SIZE] = 1
        self._beginnings[hash(body[:_SHORTEST]) % _SIZE] = 1
        if length > self.longest:
            self.longest, self.limit = length, length + _COMPRESSED

    def add_free(self, body: bytes) -> None:
        """Remember the body of an answer that is not a copy."""
        if len(body) < _SHORTEST:
            return
        if not self._free:
            self._free = array("q", bytes(8 * _SIZE))
        key = _hash(body)
        self._free[key % _SIZE] = key

    def may_have_length(self, length: int | None) -> bool:
        """Whether a result may have had this many bytes. Lengths with one remainder share a mark."""
        return (
            length is not None and _SHORTEST <= length <= self.longest and self._lengths[length % _SIZE] == 1
        )

    def may_begin(self, beginning: bytes) -> bool:
        """Whether the body of a result may begin so, also if it was compressed since."""
        return any(map(self._has_beginning, (beginning, *_inflate(beginning, _SHORTEST))))

    def _has_beginning(self, beginning: bytes) -> bool:
        if len(beginning) < _SHORTEST:
            return True
        return bool(self._beginnings) and self._beginnings[hash(beginning[:_SHORTEST]) % _SIZE] == 1

    def is_copy(self, body: bytes) -> bool:
        """Whether this is the body of a result, also if it was compressed with gzip or deflate since."""
        if self._is_recorded(body):
            return True
        if not self.longest or len(body) > self.limit:
            return False
        return any(map(self._is_recorded, _inflate(body, self.longest + 1)))

    def _is_recorded(self, body: bytes) -> bool:
        if not self.may_have_length(len(body)):
            return False
        key = _hash(body)
        is_free = bool(self._free) and self._free[key % _SIZE] == key
        return self._results[key % _SIZE] == key and not is_free


def _inflate(body: bytes, length: int) -> Iterator[bytes]:
    """Yield what a body, or its beginning, decompresses to in each format: `length` bytes at most."""
    for bits in _FORMATS:
        inflater = zlib.decompressobj(bits)
        try:
            inflated = inflater.decompress(body, length)
        except zlib.error:
            continue
        # A text may be a few bytes of valid deflate by chance: a result that short is not recorded.
        if not (inflater.eof and len(inflated) < _SHORTEST):
            yield inflated


def _hash(body: bytes) -> int:
    return hash((len(body), body[:_SAMPLED], body[-_SAMPLED:]))


RESULTS = ResultRecord()
"""Of all paywalls of this process: one may stand inside of another."""
