"""How commands are sent to a Redis server: encoded by their callers, and joined to what is sent at once."""

from collections.abc import Iterable, Sequence
from itertools import chain

Word = bytes | str | int | float
LARGE = 64 * 1024
"""A longer word is sent by itself: copying it would cost more than another system call."""


def encode_words(words: Sequence[Word]) -> list[bytes]:
    """Encode the words of a command, which `encode_count` precedes."""
    encoded = [
        word if isinstance(word, bytes) else (word if isinstance(word, str) else repr(word)).encode()
        for word in words
    ]
    if max(map(len, encoded)) <= LARGE:
        return [b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded])]
    return join_small(chain.from_iterable((b"$%d\r\n" % len(word), word, b"\r\n") for word in encoded))


def encode_count(words: int) -> bytes:
    return b"*%d\r\n" % words


def encode_command(*words: Word) -> list[bytes]:
    return [encode_count(len(words)), *encode_words(words)]


def join_small(parts: Iterable[bytes]) -> list[bytes]:
    joined: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) > LARGE:
            joined += (b"".join(small), part)
            small = []
        else:
            small.append(part)
    return [*joined, b"".join(small)]
