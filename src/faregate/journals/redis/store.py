"""The rows of one namespace in Redis (`faregate.journals.store.RowStore`). The rules are in journal.lua."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, cast, get_args

from faregate.errors import JournalUnreadable
from faregate.journals.redis import errors
from faregate.journals.redis.client import ScriptClient
from faregate.journals.redis.connections import Word
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    Record,
    TransactionTaken,
)

PAGE, PAGES = 32, 64
"""Due rows compared at a time, and how many times, if all of them are another seller's."""
ROWS = 1000
"""Rows read with one command when all are needed: a script blocks the server while it runs."""
APART = 64 * 1024
"""A larger result has a key of its own, so that reading and writing its row stays fast."""


_PLAIN = tuple(name for name in COLUMNS if name not in ("key", *ENCRYPTED))


class RedisStore:
    """`durable` makes no difference: what survives a power cut is a setting of the server."""

    def __init__(self, client: ScriptClient) -> None:
        self._client = client

    def find(self, keys: Sequence[bytes]) -> Record | None:
        return _parse_record(self._client.run("find", *(key.hex() for key in keys)))

    def find_result(self, key: bytes) -> bytes | None:
        record = self.find([key])
        return None if record is None else record["result"]

    def find_transaction(self, transaction_id: str) -> Record | None:
        return _parse_record(self._client.run("find_transaction", transaction_id))

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        names = [candidate.hex() for candidate in candidate_keys]
        columns = {name: value for name, value in record.items() if name != "key"}
        return self._write(
            "insert",
            record["key"].hex(),
            record["stamp"],
            now,
            PURGE_WITH_INSERT,
            len(names),
            *names,
            *_encode_changes(columns),
        )

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        return self._write("replace", key.hex(), stamp, *_encode_changes(changes))

    def delete(self, key: bytes, stamp: int) -> bool:
        return self._write("delete", key.hex(), stamp)

    def _write(self, command: str, *arguments: Word) -> bool:
        reply = self._client.run(command, *arguments)
        match reply[0]:
            case b"taken":
                raise TransactionTaken
            case b"impossible":
                raise errors.impossible(reply[1].decode())
            case status:
                return bool(status == b"ok")

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        return _parse_record(self._client.run("take_due", *due, PAGE, PAGES, *_encode_changes(changes)))

    def renew(self, owner: str, until: float, now: float) -> None:
        self._client.run("renew", owner, until, now - OWNER_RETENTION)

    def owner_until(self, owner: str) -> float:
        return float(self._client.run("owner_until", owner)[1])

    def list_owed(self, limit: int) -> list[Record]:
        _, rows = self._client.run("owed", limit, *_PLAIN)
        return [_parse_row(key, dict(zip(_PLAIN, words, strict=True))) for key, words in rows]

    def purge(self, now: float, limit: int) -> int:
        return int(self._client.run("purge", now, limit)[1])

    def measure(self) -> tuple[int, int]:
        _, rows, size = self._client.run("measure")
        return int(rows), int(size)

    # For operators

    def key_ids(self) -> set[str]:
        return set(self._count_rows_by_key())

    def _count_rows_by_key(self) -> dict[str, int]:
        flat = self._client.run("key_ids")[1]
        return {key.decode(): int(number) for key, number in zip(flat[::2], flat[1::2], strict=True)}

    def usage_of_keys(self) -> list[KeyUsage]:
        owed: Counter[str] = Counter(key_id.decode() for _, key_id, _ in _rows(self._client, "owed"))
        last: dict[str, float] = {}
        for _, key_id, expires_at in _rows(self._client, "expiring"):
            last[key_id.decode()] = float(expires_at)  # in this order: the latest comes last
        found = self._count_rows_by_key().items()
        return [KeyUsage(key_id, rows, owed[key_id], last.get(key_id)) for key_id, rows in found]

    def namespaces(self) -> dict[str, int]:
        return self._client.count_owed()

    def move(self, namespace: str) -> int:
        """Move row by row: insert here, then delete there, so that an interrupted move can be repeated."""
        source = RedisStore(self._client.for_namespace(namespace))
        try:
            names = [key for index in ("owed", "expiring") for key, _, _ in _rows(source._client, index)]
            return sum(self._move_row(source, bytes.fromhex(name.decode())) for name in names)
        finally:
            source.disconnect()

    def _move_row(self, source: "RedisStore", key: bytes) -> bool:
        record = source.find([key])
        try:
            if record is None or not self.insert(record, [key], 0.0):
                return False
        except TransactionTaken:
            return False
        return source.delete(key, record["stamp"])

    def disconnect(self) -> None:
        self._client.disconnect()


def _rows(client: ScriptClient, index: str) -> Iterator[list[bytes]]:
    """Yield key, key id and expiry of all rows of an index, read in pages."""
    for first in count(0, ROWS):
        rows = client.run("list_rows", index, first, ROWS)[1]
        yield from rows
        if len(rows) < ROWS:
            return


def _encode_changes(columns: Mapping[str, Any]) -> list[Word]:
    """Encode as the number of columns that are set, their names and values, and the columns cleared."""
    changes = dict(columns)
    if len(changes.get("result") or b"") > APART:
        changes["apart"] = changes.pop("result")
    elif "result" in changes and changes["result"] is None:
        changes["apart"] = None
    filled = {name: _encode(value) for name, value in changes.items() if value is not None}
    cleared = [name for name, value in changes.items() if value is None]
    return [len(filled), *chain.from_iterable(filled.items()), *cleared]


def _encode(value: Any) -> Word:
    """Numbers as `repr` writes them, which round-trips floats; Lua's own conversion keeps 14 digits."""
    return value if isinstance(value, bytes | str) else repr(int(value) if isinstance(value, bool) else value)


_DECODERS: dict[Any, Callable[[bytes], Any]] = {
    bytes: bytes,
    str: bytes.decode,
    int: int,
    float: float,
    bool: lambda word: word == b"1",
}


def _get_decoder(kind: Any) -> tuple[Callable[[bytes], Any], bool]:
    """How to decode a column, and whether it may be missing."""
    kinds = get_args(kind)
    return (_DECODERS[kinds[0]], True) if kinds else (_DECODERS[kind], False)


_COLUMNS = {name: _get_decoder(kind) for name, kind in Record.__annotations__.items()}


def _parse_record(reply: list[Any]) -> Record | None:
    if reply[0] == b"no":
        return None
    _, key, flat, apart = reply
    words: dict[str, bytes | None] = {
        name.decode(): word for name, word in zip(flat[::2], flat[1::2], strict=True)
    }
    if apart is not None:
        words["result"] = apart
    return _parse_row(key, words)


def _parse_row(key: bytes, words: Mapping[str, bytes | None]) -> Record:
    """A column that is null is missing, or None."""
    present = {name: word for name, word in words.items() if word is not None}
    present["key"] = bytes.fromhex(key.decode())
    try:
        return cast(Record, {name: _decode_column(present, name) for name in _COLUMNS})
    except (KeyError, ValueError):
        raise JournalUnreadable("a row in the journal was written by another version of faregate") from None


def _decode_column(words: Mapping[str, bytes], name: str) -> Any:
    decode, may_be_missing = _COLUMNS[name]
    return None if may_be_missing and name not in words else decode(words[name])
