"""The rows of one namespace in Redis (`faregate.journals.store.Shelf`). Each write is one script."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, cast, get_args

from faregate.errors import JournalUnreadable
from faregate.journals.redis import errors, scripts
from faregate.journals.redis.client import ScriptClient
from faregate.journals.redis.connections import Word
from faregate.journals.store import COLUMNS, ENCRYPTED, Due, KeyUsage, Record, TransactionTaken

PURGE = 8
"""Expired rows forgotten with each new one: more than come in, and few enough not to be noticed."""
PAGE, PAGES = 32, 64
"""Of the rows that are due longest, so many are compared; if all are another seller's, so many times."""
OWNER_RETENTION = 3600.0
"""An owner that died is forgotten after so many seconds."""
ROWS = 1000
"""Rows that are read with one script when all are needed."""
APART = 64 * 1024
"""A result of more bytes has a key of its own."""


_PLAIN = tuple(name for name in COLUMNS if name not in ("key", *ENCRYPTED))


class RedisStore:
    """Whether a write outlives a power cut is the server's to say: all are alike here."""

    def __init__(self, server: ScriptClient) -> None:
        self._server = server

    def find(self, keys: Sequence[bytes]) -> Record | None:
        return _record(self._server.run(scripts.FIND, *(key.hex() for key in keys)))

    def find_transaction(self, transaction_id: str) -> Record | None:
        return _record(self._server.run(scripts.FIND_TRANSACTION, transaction_id))

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        names = [rival.hex() for rival in candidate_keys]
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
                raise errors.impossible(answer[1].decode())
            case said:
                return bool(said == b"ok")

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        return _record(self._server.run(scripts.TAKE_DUE, *due, PAGE, PAGES, *_sent(changes)))

    def renew(self, owner: str, until: float, now: float) -> None:
        self._server.run(scripts.RENEW, owner, until, now - OWNER_RETENTION)

    def owner_until(self, owner: str) -> float:
        return float(self._server.run(scripts.OWNER_UNTIL, owner)[1])

    def owed(self, limit: int) -> list[Record]:
        _, rows = self._server.run(scripts.OWED, limit, *_PLAIN)
        return [_row(key, dict(zip(_PLAIN, words, strict=True))) for key, words in rows]

    def purge(self, now: float, limit: int) -> int:
        return int(self._server.run(scripts.PURGE, now, limit)[1])

    def measure(self) -> tuple[int, int]:
        _, rows, size = self._server.run(scripts.MEASURE)
        return int(rows), int(size)

    # For operators

    def key_ids(self) -> set[str]:
        return set(self._rows_by_key())

    def _rows_by_key(self) -> dict[str, int]:
        flat = self._server.run(scripts.KEY_IDS)[1]
        return {key.decode(): int(number) for key, number in zip(flat[::2], flat[1::2], strict=True)}

    def usage_of_keys(self) -> list[KeyUsage]:
        owed: Counter[str] = Counter(key_id.decode() for _, key_id, _ in _rows(self._server, "owed"))
        last: dict[str, float] = {}
        for _, key_id, expires_at in _rows(self._server, "expiring"):
            last[key_id.decode()] = float(expires_at)  # in this order: the latest comes last
        found = self._rows_by_key().items()
        return [KeyUsage(key_id, rows, owed[key_id], last.get(key_id)) for key_id, rows in found]

    def namespaces(self) -> dict[str, int]:
        return self._server.namespaces()

    def move(self, namespace: str) -> int:
        """Each row by itself, written here before it is forgotten there: a move can be repeated."""
        there = RedisStore(self._server.of(namespace))
        try:
            names = [key for index in ("owed", "expiring") for key, _, _ in _rows(there._server, index)]
            return sum(self._take_over(there, bytes.fromhex(name.decode())) for name in names)
        finally:
            there.disconnect()

    def _take_over(self, there: "RedisStore", key: bytes) -> bool:
        record = there.find([key])
        try:
            if record is None or not self.insert(record, [key], 0.0):
                return False
        except TransactionTaken:
            return False
        return there.delete(key, record["stamp"])

    def disconnect(self) -> None:
        self._server.disconnect()


def _rows(server: ScriptClient, index: str) -> Iterator[list[bytes]]:
    """The name, key id and expiry of all rows of an index, read in pages."""
    for first in count(0, ROWS):
        rows = server.run(scripts.ROWS, index, first, ROWS)[1]
        yield from rows
        if len(rows) < ROWS:
            return


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
