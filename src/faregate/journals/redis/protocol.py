"""How commands are sent to a Redis server: encoded by their callers, and joined to what is sent at once."""

from collections.abc import Iterable, Sequence

Word = bytes | str | int | float
LARGE = 64 * 1024
"""A longer word is sent by itself: copying it would cost more than another system call."""


def encode_words(words: Sequence[Word]) -> list[bytes]:
    """Encode the words of a command, which `encode_count` precedes."""
    parts: list[bytes] = []
    for word in words:
        data = word if isinstance(word, bytes) else (word if isinstance(word, str) else repr(word)).encode()
        parts += (b"$%d\r\n" % len(data), data, b"\r\n")
    return join_small(parts)


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
