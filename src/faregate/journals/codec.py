"""Convert rows to records and back. What a payer or a handler sent is encrypted."""

import json
from collections.abc import Mapping
from typing import Any, cast

from faregate.core.models import Outcome, Response, WorkFailed, WorkSucceeded
from faregate.errors import JournalUnreadable
from faregate.journals.keyring import Keyring
from faregate.journals.row_rules import FIELDS, Row, get_values, size_of
from faregate.journals.states import SETTLED, SUCCEEDED, RowState
from faregate.journals.store import COLUMNS, ENCRYPTED, Record

_LENGTH_BYTES = 4
_to_json = json.JSONEncoder(separators=(",", ":")).encode  # made once: `json.dumps` makes one for each call
_STATES = {state.value for state in RowState}
_TEXTS = tuple(name for name in ENCRYPTED if name != "result")
_OR_NULL = ("transaction_id", "purchase")
"""Columns that are unique, and null where a row has none."""
_UNCHANGED = tuple(name for name in COLUMNS if name not in ("stamp", "state", "size", *_OR_NULL, *ENCRYPTED))
"""Columns that a row and its record have in common, under one name and with the same value."""

LARGE = 256 * 1024
"""A larger result is encrypted and decrypted in a thread: an event loop would stand still for long."""
NOT_READ = WorkSucceeded(Response(0), (), 0)
"""The outcome of a row whose result was not read. That there is one, and that it is no failure, is known."""
_HAS_RESULT = (SUCCEEDED, SETTLED)


class Codec:
    """Convert with one keyring.

    If `in_parts`, large results are encrypted while the store reads them, as `EncryptedParts`.
    """

    def __init__(self, keyring: Keyring, in_parts: bool = False) -> None:
        self._keyring = keyring
        self.in_parts = in_parts

    def pack(self, row: Row, stamp: int) -> Record:
        """Return the record of a new row."""
        values: dict[str, Any] = dict.fromkeys(COLUMNS)  # stores insert the values in this order
        fields: dict[str, Any] = dict(zip(FIELDS, get_values(row), strict=True))
        fields["state"] = row.state.value
        for name in _OR_NULL:
            fields[name] = fields[name] or None
        self._encode_outcome(fields, row.key, fields.pop("outcome"))
        for name in _TEXTS:
            text = fields[name]
            fields[name] = self._keyring.encrypt(row.key, name, text.encode()) if text else None
        values.update(fields, stamp=stamp)
        return cast(Record, values)

    def pack_changes(self, before: Row, after: Row, stamp: int) -> dict[str, Any]:
        """Return the columns that differ, and the new stamp. Unchanged columns are not encrypted again."""
        changes: dict[str, Any] = {"stamp": stamp}
        for name, old, value in zip(FIELDS, get_values(before), get_values(after), strict=True):
            if value is old:
                continue
            if name == "outcome":  # decided once: comparing large results would be slow
                self._encode_outcome(changes, after.key, value)
            elif value == old:
                continue
            elif name in _TEXTS:
                changes[name] = self._keyring.encrypt(after.key, name, value.encode()) if value else None
            elif name == "state":
                changes[name] = value.value
            elif name in _OR_NULL:
                changes[name] = value or None
            else:
                changes[name] = value
        return changes

    def _encode_outcome(self, columns: dict[str, Any], key: bytes, outcome: Outcome | None) -> None:
        columns["size"] = size = size_of(outcome)
        if outcome is None:
            columns["result"] = None
            return
        parts = _encode_outcome(outcome)
        if self.in_parts and size > LARGE:
            columns["result"] = self._keyring.encrypt_parts(key, "result", parts)
        else:
            columns["result"] = self._keyring.encrypt(key, "result", b"".join(parts))

    def unpack(self, record: Record) -> Row:
        """Return the row without its result: see `NOT_READ`. Raises `JournalUnreadable`."""
        if record["state"] not in _STATES:
            raise JournalUnreadable("a row in the journal was written by a newer version of faregate")
        state = RowState(record["state"])
        values: Mapping[str, Any] = record
        texts: dict[str, Any] = {
            name: self._decrypt(record["key"], name, cast("bytes | None", values[name])).decode()
            for name in _TEXTS
        }
        return Row(
            **{name: values[name] for name in _UNCHANGED},
            state=state,
            transaction_id=record["transaction_id"] or "",
            purchase=record["purchase"] or "",
            **texts,
            outcome=NOT_READ if state in _HAS_RESULT else None,
        )

    def unpack_plain(self, record: Record) -> Row:
        """Return the row without what is encrypted, which needs no key."""
        return self.unpack(cast(Record, {**record, **dict.fromkeys(ENCRYPTED)}))

    def unpack_outcome(self, key: bytes, result: bytes | None) -> Outcome | None:
        """Raises `JournalUnreadable`."""
        return None if result is None else _decode_outcome(self._decrypt(key, "result", result))

    def _decrypt(self, key: bytes, field: str, encrypted: bytes | None) -> bytes:
        return b"" if encrypted is None else self._keyring.decrypt(key, field, encrypted)


def _encode_outcome(outcome: Outcome) -> tuple[bytes, bytes]:
    """Encode as the length of the head, the head as JSON, and the body as it is."""
    if isinstance(outcome, WorkFailed):
        return _frame({"code": outcome.code}, b"")
    result = outcome.result
    head = {
        "status": result.status,
        "headers": result.headers,
        "values": outcome.values,
        "duration_ms": outcome.duration_ms,
    }
    return _frame(head, result.body)


def _frame(head: dict[str, Any], body: bytes) -> tuple[bytes, bytes]:
    text = _to_json(head).encode()
    return len(text).to_bytes(_LENGTH_BYTES) + text, body


def _decode_outcome(data: bytes) -> Outcome:
    """Decode what was authenticated: if it cannot be read, another version of faregate wrote it."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
    try:
        head = json.loads(data[_LENGTH_BYTES:end])
        if "code" in head:
            return WorkFailed(head["code"])
        result = Response(head["status"], _pairs(head["headers"]), data[end:])
        return WorkSucceeded(result, _pairs(head["values"]), head["duration_ms"])
    except (ValueError, KeyError, TypeError):
        raise JournalUnreadable(
            "a result in the journal was written by another version of faregate"
        ) from None


def _pairs(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in pairs)
