"""Recognise the body of a result in an answer that no handler made.

A result is marked by a header between its handler and the paywall (`core.release.MARK`). A cache that keeps
bodies alone loses the mark, and its key may lead to an address that is free. So each process remembers the
bodies of its last results: an answer for which the framework called no handler, and which has one of these
bodies, is a copy.

To refuse all that no handler made would refuse health checks, static files and caches of free pages as well.
A copy is not found if it was changed or cut, or if another process made the result.
"""

import zlib
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_MOST = 10_000
_PART = 4096
"""How many bytes of each end of a body are compared: a result may have megabytes."""

_Digest = tuple[int, int]


class _Recent(Generic[T]):
    """A set of the last values: at least `most` of them, and at most twice as many. It needs no lock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: set[T] = set()
        self._old: set[T] = set()

    def add(self, value: T) -> None:
        self._new.add(value)
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()

    def __contains__(self, value: T) -> bool:
        return value in self._new or value in self._old


class ResultRecord:
    """The bodies of the last results, as digests, and of the answers that were there before them.

    A health check may answer `{"status":"ok"}`, and so may what is sold: what was answered without a handler
    before it was the body of a result is no copy of that.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self.forget()

    def forget(self) -> None:
        """Forget everything: for tests."""
        most = self._most
        self._results: _Recent[_Digest] = _Recent(most)
        self._own: _Recent[_Digest] = _Recent(most)
        self._lengths: _Recent[int] = _Recent(most)
        self.longest = 0
        """Of all results, in bytes."""

    def add(self, body: bytes) -> None:
        """Remember the body of a result."""
        if not body:
            return
        digest = _digest(body)
        self._results.add(digest)
        self._lengths.add(digest[0])
        self.longest = max(self.longest, digest[0])

    def has_length(self, length: int | None) -> bool:
        """Whether a result has had this many bytes."""
        return length is not None and length in self._lengths

    def is_copy(self, body: bytes) -> bool:
        """Whether this is the body of a result, also if it was compressed with gzip since."""
        if body.startswith(_GZIP):
            with suppress(zlib.error):
                plain = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(body, self.longest + 1)
                return self._has(plain) or self._has(body)
        return self._has(body)

    def _has(self, body: bytes) -> bool:
        if len(body) not in self._lengths:
            return False
        digest = _digest(body)
        return digest in self._results and digest not in self._own

    def add_own(self, body: bytes) -> None:
        """Remember the body of an answer that is no copy."""
        if body:
            self._own.add(_digest(body))


def _digest(body: bytes) -> _Digest:
    length = len(body)
    return length, hash(body if length <= 2 * _PART else body[:_PART] + body[-_PART:])


RESULTS = ResultRecord()
"""Of all paywalls of this process: one may stand inside of another."""
