"""The rows of one namespace in Redis (`faregate.journals.store.RowStore`). The rules are in journal.lua."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any, cast, get_args

from faregate.errors import JournalUnreadable
from faregate.journals.redis.client import RedisCommand, ScriptClient, make_command, return_reply
from faregate.journals.redis.connections import Word
from faregate.journals.redis.schema import FOUND_COLUMNS
from faregate.journals.row_operations import (
    BatchedRows,
    Delete,
    Find,
    FindResult,
    Insert,
    Replace,
    RowOperation,
)
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PAGE,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    Record,
    TransactionTaken,
)

DUE_PAGE, DUE_PAGES = 32, 64
"""Due rows compared at a time, and how many times, if all of them are another seller's."""
INDEX_PAGE = 1000
"""Entries of an index read with one command: a script blocks the server while it runs."""
APART = 64 * 1024
"""A larger result has a key of its own, so that reading and writing its row stays fast."""


_INDEXES = ("owed", "expiring", "unfetched", "delivered", "remembered")
"""Each row is in one of them."""
_PLAIN = tuple(name for name in COLUMNS if name not in ENCRYPTED)


class RedisStore(BatchedRows):
    """`durable` makes no difference: what survives a power cut is a setting of the server."""

    def __init__(self, client: ScriptClient) -> None:
        self._client = client
        self.writer = client.writer

    @property
    def namespace(self) -> str:
        return self._client.namespace

    def prepare(self, operation: RowOperation) -> RedisCommand:
        match operation:
            case Find(keys):
                return make_command("find", *(key.hex() for key in keys), parse=_parse_record)
            case FindResult(key):
                return make_command("find_result", key.hex(), parse=return_reply)
            case Insert(record, candidate_keys, now):
                names = [key.hex() for key in candidate_keys]
                columns = {
                    name: value for name, value in record.items() if name != "key" and value is not None
                }
                return make_command(
                    "insert",
                    record["key"].hex(),
                    record["stamp"],
                    now,
                    PURGE_WITH_INSERT,
                    len(names),
                    *names,
                    *_encode_changes(columns),
                    parse=bool,
                )
            case Replace(key, stamp, changes, _):
                return make_command("replace", key.hex(), stamp, *_encode_changes(changes), parse=bool)
            case Delete(key, stamp):
                return make_command("delete", key.hex(), stamp, parse=bool)

    def find_transaction(self, transaction_id: str) -> Record | None:
        record: Record | None = self._client.run("find_transaction", transaction_id, parse=_parse_record)
        return record

    def find_purchase(self, purchase: str) -> Record | None:
        record: Record | None = self._client.run("find_purchase", purchase, parse=_parse_record)
        return record

    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        words: list[Word] = ["find_authorization", own.hex(), now, *hashes]
        record: Record | None = self._client.run(*words, parse=_parse_record)
        return record

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        # One script finds the row and leases it: nothing can come in between.
        words = ("take_due", *due[:4], DUE_PAGE, DUE_PAGES, *_encode_changes(changes))
        record: Record | None = self._client.run(*words, parse=_parse_record)
        return record

    def renew(self, owner: str, until: float, now: float) -> None:
        self._client.run("renew", owner, until, now - OWNER_RETENTION, parse=bool)

    def owner_until(self, owner: str) -> float:
        return float(self._client.run("owner_until", owner) or 0)

    def list_owed(self, limit: int) -> list[Record]:
        return self._list("owed", "+inf", limit)

    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        return self._list("unfetched", until, limit)

    def _list(self, index: str, until: Word, limit: int) -> list[Record]:
        def parse(rows: list[list[bytes | None]]) -> list[Record]:
            return [_parse_row(_PLAIN, row) for row in rows]

        records: list[Record] = self._client.run("list", index, until, limit, *_PLAIN[1:], parse=parse)
        return records

    def iterate(self) -> Iterator[Record]:
        for index in _INDEXES:
            for first in count(0, PAGE):
                rows = self._client.run("read_rows", index, first, PAGE)
                yield from (_parse_row(("key", *FOUND_COLUMNS), row) for row in rows)
                if len(rows) < PAGE:
                    break

    def list_namespaces(self) -> list[str]:
        return self._client.list_namespaces()

    @contextmanager
    def open_namespace(self, namespace: str) -> Generator["RedisStore"]:
        other = RedisStore(self._client.for_namespace(namespace))
        try:
            yield other
        finally:
            other.disconnect()

    def drop_results(self, now: float, limit: int) -> int:
        return int(self._client.run("drop_results", now, limit))

    def purge(self, now: float, limit: int) -> int:
        return int(self._client.run("purge", now, limit))

    def forget_delivered(self, limit: int) -> int:
        return int(self._client.run("forget_delivered", limit))

    def measure(self) -> tuple[int, int]:
        rows, size = self._client.run("measure")
        return int(rows), int(size)

    # For operators

    def key_ids(self) -> set[str]:
        return set(self._count_rows_by_key())

    def _count_rows_by_key(self) -> dict[str, int]:
        flat = self._client.run("key_ids")
        return {key.decode(): int(number) for key, number in zip(flat[::2], flat[1::2], strict=True)}

    def usage_of_keys(self) -> list[KeyUsage]:
        owed: Counter[str] = Counter(key_id.decode() for _, key_id, _ in self.iterate_index("owed"))
        last: dict[str, float] = {}
        for index in _INDEXES[1:]:
            for _, key_id, removed_at in self.iterate_index(index):
                name = key_id.decode()
                last[name] = max(last.get(name, 0.0), float(removed_at))
        counts = self._count_rows_by_key().items()
        return [KeyUsage(key_id, rows, owed[key_id], last.get(key_id)) for key_id, rows in counts]

    def namespaces(self) -> dict[str, int]:
        return self._client.count_owed()

    def iterate_index(self, index: str) -> Iterator[list[bytes]]:
        """Yield key, key id and time of removal of all rows of an index, read in pages."""
        for first in count(0, INDEX_PAGE):
            rows = self._client.run("list_rows", index, first, INDEX_PAGE)
            yield from rows
            if len(rows) < INDEX_PAGE:
                return

    def move(self, namespace: str) -> int:
        """Move row by row: insert here, then delete there, so that an interrupted move can be repeated."""
        with self.open_namespace(namespace) as source:
            names = [key for index in _INDEXES for key, _, _ in source.iterate_index(index)]
            return sum(self._move_row(source, bytes.fromhex(name.decode())) for name in names)

    def _move_row(self, source: "RedisStore", key: bytes) -> bool:
        record = source.find([key])
        if record is None:
            return False
        record["result"] = source.find_result(key)
        if record["purchase"] is not None:
            record["purchase"] = None
        try:
            # `now` is 0.0, so that the insert purges nothing.
            if not self.insert(record, [key], 0.0):
                return False
        except TransactionTaken:
            return False
        return source.delete(key, record["stamp"])

    def disconnect(self) -> None:
        self._client.disconnect()


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
    """Encode a bool as 0 or 1. `encode_words` writes floats as `repr` does; Lua would keep 14 digits."""
    return int(value) if isinstance(value, bool) else value


_DECODERS: dict[Any, Callable[[bytes], Any]] = {
    bytes: bytes,
    str: bytes.decode,
    int: int,
    float: float,
    bool: lambda word: word == b"1",
}


def _get_decoder(kind: Any) -> Callable[[Any], Any]:
    """A column that may be null is None then; another one is not decoded."""
    if kinds := get_args(kind):
        decode = _DECODERS[kinds[0]]
        return lambda word: None if word is None else decode(word)
    return _DECODERS[kind]


_COLUMNS = {name: _get_decoder(kind) for name, kind in Record.__annotations__.items()}
_COLUMNS["key"] = lambda word: bytes.fromhex(word.decode())


def _parse_record(row: list[bytes | None] | None) -> Record | None:
    return None if row is None else _parse_row(("key", *FOUND_COLUMNS), row)


def _parse_row(names: Sequence[str], words: Sequence[bytes | None]) -> Record:
    record: dict[str, Any] = dict.fromkeys(COLUMNS)
    try:
        for name, word in zip(names, words, strict=True):
            record[name] = _COLUMNS[name](word)
    except (TypeError, ValueError):
        raise JournalUnreadable("a row in the journal was written by another version of faregate") from None
    return cast(Record, record)
