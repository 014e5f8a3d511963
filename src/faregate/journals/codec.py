"""Convert rows to records and back. Proofs, payment responses, receipts and results are encrypted."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from faregate.core.models import Failed, Outcome, Response, Succeeded
from faregate.errors import JournalUnreadable
from faregate.journals.encryption import Keyring
from faregate.journals.row import Row, size_of
from faregate.journals.states import State
from faregate.journals.store import COLUMNS, ENCRYPTED, Record

_LENGTH_BYTES = 4
_STATES = {state.value for state in State}
_TEXTS = tuple(name for name in ENCRYPTED if name != "result")
_UNCHANGED = tuple(
    name for name in COLUMNS if name not in ("stamp", "state", "transaction_id", "size", *ENCRYPTED)
)
"""Columns that a row and its record have in common, under one name and with the same value."""


class Codec:
    """Convert with one keyring."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def pack(self, row: Row, stamp: int, before: Record | None = None) -> Record:
        """Return the record of a row. Values that `before` already has are not encrypted again.

        They never change, and encrypting anew would write a large result with every change of its row.
        """
        kept: Any = before or {}
        values = {
            **{name: getattr(row, name) for name in _UNCHANGED},
            "stamp": stamp,
            "state": row.state.value,
            "transaction_id": row.transaction_id or None,
            "size": size_of(row.outcome),
            **{name: self._encrypt(row, name, getattr(row, name), str.encode, kept) for name in _TEXTS},
            "result": self._encrypt(row, "result", row.outcome, _encode_outcome, kept),
        }
        # Stores insert the values in the order of their columns.
        return cast(Record, {name: values[name] for name in COLUMNS})

    def _encrypt(
        self, row: Row, field: str, value: Any, encode: Callable[[Any], bytes], kept: Any
    ) -> bytes | None:
        if not value:
            return None
        encrypted: bytes | None = kept.get(field)
        return self._keyring.encrypt(row.key, field, encode(value)) if encrypted is None else encrypted

    def unpack(self, record: Record) -> Row:
        """Raises `JournalUnreadable`."""
        if record["state"] not in _STATES:
            raise JournalUnreadable("a row in the journal was written by a newer version of faregate")
        result = self._decrypt(record, "result")
        values: Mapping[str, Any] = record
        texts: dict[str, Any] = {name: self._decrypt(record, name).decode() for name in _TEXTS}
        return Row(
            **{name: values[name] for name in _UNCHANGED},
            state=State(record["state"]),
            transaction_id=record["transaction_id"] or "",
            **texts,
            outcome=_decode_outcome(result) if result else None,
        )

    def _decrypt(self, record: Record, field: str) -> bytes:
        encrypted: bytes | None = cast(Any, record)[field]
        return b"" if encrypted is None else self._keyring.decrypt(record["key"], field, encrypted)


def _encode_outcome(outcome: Outcome) -> bytes:
    """Encode as the length of the head, the head as JSON, and the body as it is."""
    if isinstance(outcome, Failed):
        return _frame({"code": outcome.code}, b"")
    result = outcome.result
    head = {
        "status": result.status,
        "headers": result.headers,
        "values": outcome.values,
        "duration_ms": outcome.duration_ms,
    }
    return _frame(head, result.body)


def _frame(head: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES), text, body))


def _decode_outcome(data: bytes) -> Outcome:
    """Decode what was authenticated: if it cannot be read, another version of faregate wrote it."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
    try:
        head = json.loads(data[_LENGTH_BYTES:end])
        if "code" in head:
            return Failed(head["code"])
        result = Response(head["status"], _pairs(head["headers"]), data[end:])
        return Succeeded(result, _pairs(head["values"]), head["duration_ms"])
    except (ValueError, KeyError, TypeError):
        raise JournalUnreadable(
            "a result in the journal was written by another version of faregate"
        ) from None


def _pairs(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in pairs)
