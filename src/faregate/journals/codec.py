"""Convert rows to stored records and back. Proofs, results and receipts are encrypted."""

import json
from collections.abc import Callable
from typing import Any

from faregate.core.models import Failed, Outcome, Response, Succeeded
from faregate.errors import JournalUnreadable
from faregate.journals.encryption import Keyring
from faregate.journals.row import Row, State, size_of
from faregate.journals.store import Record

_LENGTH_BYTES = 4
_STATES = {state.value for state in State}


class Codec:
    """Packs and opens with one ring of keys."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def pack(self, row: Row, stamp: int, before: Record | None = None) -> Record:
        """The record of a row. What was sealed `before` stays as it was: it is written once."""
        kept: Any = before or {}
        return Record(
            key=row.key,
            stamp=stamp,
            fence=row.fence,
            generation=row.generation,
            state=row.state.value,
            request=row.request,
            transaction_id=row.transaction_id or None,
            revision_id=row.revision_id,
            since=row.since,
            owner=row.owner,
            touched_at=row.touched_at,
            seller=row.seller,
            key_id=row.key_id,
            client=row.client,
            body=row.body,
            lease_until=row.lease_until,
            due_at=row.due_at,
            expires_at=row.expires_at,
            delivered=row.delivered,
            redelivered=row.redelivered,
            holds_so_far=row.holds_so_far,
            size=size_of(row.outcome),
            reason=row.reason,
            proof=self._sealed(row, "proof", row.proof, str.encode, kept),
            payment_response=self._sealed(row, "payment_response", row.payment_response, str.encode, kept),
            receipt=self._sealed(row, "receipt", row.receipt, str.encode, kept),
            result=self._sealed(row, "result", row.outcome, _written, kept),
        )

    def _sealed(
        self, row: Row, field: str, value: Any, write: Callable[[Any], bytes], kept: Any
    ) -> bytes | None:
        if not value:
            return None
        sealed: bytes | None = kept.get(field)
        return self._keyring.seal(row.key, field, write(value)) if sealed is None else sealed

    def open(self, record: Record) -> Row:
        """Raises `JournalUnreadable`."""
        if record["state"] not in _STATES:
            raise JournalUnreadable("a row in the journal was written by a newer version of faregate")
        result = self._opened(record, "result", record["result"])
        return Row(
            key=record["key"],
            request=record["request"],
            proof=self._opened(record, "proof", record["proof"]).decode(),
            fence=record["fence"],
            since=record["since"],
            owner=record["owner"],
            touched_at=record["touched_at"],
            seller=record["seller"],
            key_id=record["key_id"],
            client=record["client"],
            body=record["body"],
            lease_until=record["lease_until"],
            expires_at=record["expires_at"],
            state=State(record["state"]),
            generation=record["generation"],
            transaction_id=record["transaction_id"] or "",
            revision_id=record["revision_id"],
            outcome=_read(result) if result else None,
            payment_response=self._opened(record, "payment_response", record["payment_response"]).decode(),
            receipt=self._opened(record, "receipt", record["receipt"]).decode(),
            delivered=record["delivered"],
            redelivered=record["redelivered"],
            holds_so_far=record["holds_so_far"],
            due_at=record["due_at"],
            reason=record["reason"],
        )

    def _opened(self, record: Record, field: str, sealed: bytes | None) -> bytes:
        return b"" if sealed is None else self._keyring.open(record["key"], field, sealed)


def _written(outcome: Outcome) -> bytes:
    """The length of the head, the head as JSON, and the body as it is."""
    if isinstance(outcome, Failed):
        return _framed({"code": outcome.code}, b"")
    result = outcome.result
    head = {
        "status": result.status,
        "headers": result.headers,
        "values": outcome.values,
        "duration_ms": outcome.duration_ms,
    }
    return _framed(head, result.body)


def _framed(head: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES), text, body))


def _read(data: bytes) -> Outcome:
    """It was sealed by us, so only another version of faregate can have written what is not understood."""
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
