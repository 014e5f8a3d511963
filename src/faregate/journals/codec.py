"""Convert rows to records and back. Proofs, payment responses, receipts and results are encrypted."""

import json
from collections.abc import Callable
from typing import Any

from faregate.core.models import Failed, Outcome, Response, Succeeded
from faregate.errors import JournalUnreadable
from faregate.journals.encryption import Keyring
from faregate.journals.row import Row, size_of
from faregate.journals.states import State
from faregate.journals.store import Record

_LENGTH_BYTES = 4
_STATES = {state.value for state in State}


class Codec:
    """Convert with one keyring."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def pack(self, row: Row, stamp: int, before: Record | None = None) -> Record:
        """Return the record of a row. Values that `before` already has are not encrypted again.

        They never change, and encrypting anew would write a large result with every change of its row.
        """
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
            proof=self._encrypt(row, "proof", row.proof, str.encode, kept),
            payment_response=self._encrypt(row, "payment_response", row.payment_response, str.encode, kept),
            receipt=self._encrypt(row, "receipt", row.receipt, str.encode, kept),
            result=self._encrypt(row, "result", row.outcome, _encode_outcome, kept),
        )

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
        result = self._decrypt(record, "result", record["result"])
        return Row(
            key=record["key"],
            request=record["request"],
            proof=self._decrypt(record, "proof", record["proof"]).decode(),
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
            outcome=_decode_outcome(result) if result else None,
            payment_response=self._decrypt(record, "payment_response", record["payment_response"]).decode(),
            receipt=self._decrypt(record, "receipt", record["receipt"]).decode(),
            delivered=record["delivered"],
            redelivered=record["redelivered"],
            holds_so_far=record["holds_so_far"],
            due_at=record["due_at"],
            reason=record["reason"],
        )

    def _decrypt(self, record: Record, field: str, encrypted: bytes | None) -> bytes:
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
