"""The rows of one namespace in Redis (`faregate.journals.shelf.Shelf`). Each write is one script."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, cast, get_args

from faregate.errors import JournalUnreadable
from faregate.journals.redis import faults, scripts
from faregate.journals.redis.connections import Word
from faregate.journals.redis.server import RedisServer
from faregate.journals.shelf import COLUMNS, SEALED, Record, TransactionTaken

PURGE = 8
"""Expired rows forgotten with each new one: more than come in, and few enough not to be noticed."""
LOOKED_AT = 32
"""Of the rows that are due longest, so many are compared."""
APART = 64 * 1024
"""A result of more bytes has a key of its own."""


_PLAIN = tuple(name for name in COLUMNS if name not in ("key", *SEALED))


class RedisShelf:
    """Whether a write outlives a power cut is the server's to say: all are alike here."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def find(self, keys: Sequence[bytes]) -> Record | None:
        return _record(self._server.run(scripts.FIND, *(key.hex() for key in keys)))

    def find_transaction(self, transaction_id: str) -> Record | None:
        return _record(self._server.run(scripts.FIND_TRANSACTION, transaction_id))

    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        names = [rival.hex() for rival in rivals]
        columns = {name: value for name, value in record.items() if name != "key"}
        return self._written(
            scripts.INSERT,
            record["key"].hex(),
            record["stamp"],
            now,
            PURGE,
            len(names),
            *names,
            *_sent(columns),
        )

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        return self._written(scripts.REPLACE, key.hex(), stamp, *_sent(changes))

    def delete(self, key: bytes, stamp: int) -> bool:
        return self._written(scripts.DELETE, key.hex(), stamp)

    def _written(self, script: str, *arguments: Word) -> bool:
        answer = self._server.run(script, *arguments)
        match answer[0]:
            case b"taken":
                raise TransactionTaken
            case b"impossible":
                raise faults.impossible(answer[1].decode())
            case said:
                return bool(said == b"ok")

    def take_due(self, now: float, changes: Mapping[str, Any]) -> Record | None:
        return _record(self._server.run(scripts.TAKE_DUE, now, LOOKED_AT, *_sent(changes)))

    def owed(self, limit: int) -> list[Record]:
        _, rows = self._server.run(scripts.OWED, limit, *_PLAIN)
        return [_row(key, dict(zip(_PLAIN, words, strict=True))) for key, words in rows]

    def purge(self, now: float, limit: int) -> int:
        return int(self._server.run(scripts.PURGE, now, limit)[1])

    def measure(self) -> tuple[int, int]:
        _, rows, size = self._server.run(scripts.MEASURE)
        return int(rows), int(size)

    def disconnect(self) -> None:
        self._server.disconnect()


def _sent(columns: Mapping[str, Any]) -> list[Word]:
    """How many are set, their names and values, and the names of those that are cleared."""
    changes = dict(columns)
    if len(changes.get("result") or b"") > APART:
        changes["apart"] = changes.pop("result")
    elif "result" in changes and changes["result"] is None:
        changes["apart"] = None
    filled = {name: _word(value) for name, value in changes.items() if value is not None}
    cleared = [name for name, value in changes.items() if value is None]
    return [len(filled), *chain.from_iterable(filled.items()), *cleared]


def _word(value: Any) -> Word:
    """Numbers as Python writes them: read again, they are the same."""
    return value if isinstance(value, bytes | str) else repr(int(value) if isinstance(value, bool) else value)


_READ: dict[Any, Callable[[bytes], Any]] = {
    bytes: bytes,
    str: bytes.decode,
    int: int,
    float: float,
    bool: lambda word: word == b"1",
}


def _reader(kind: Any) -> tuple[Callable[[bytes], Any], bool]:
    """How a column is read, and whether it may be missing."""
    kinds = get_args(kind)
    return (_READ[kinds[0]], True) if kinds else (_READ[kind], False)


_COLUMNS = {name: _reader(kind) for name, kind in Record.__annotations__.items()}


def _record(answer: list[Any]) -> Record | None:
    if answer[0] == b"no":
        return None
    _, key, flat, apart = answer
    words: dict[str, bytes | None] = {
        name.decode(): word for name, word in zip(flat[::2], flat[1::2], strict=True)
    }
    if apart is not None:
        words["result"] = apart
    return _row(key, words)


def _row(key: bytes, words: Mapping[str, bytes | None]) -> Record:
    """A column that is missing has no word, or None."""
    there = {name: word for name, word in words.items() if word is not None}
    there["key"] = bytes.fromhex(key.decode())
    try:
        return cast(Record, {name: _column(there, name) for name in _COLUMNS})
    except (KeyError, ValueError):
        raise JournalUnreadable("a row in the journal was written by another version of faregate") from None


def _column(words: Mapping[str, bytes], name: str) -> Any:
    read, may_be_missing = _COLUMNS[name]
    return None if may_be_missing and name not in words else read(words[name])
