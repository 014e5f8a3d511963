"""Stale reads: the answer of a replica that lags behind.

A transaction that the replica does not know yet is 404; a list is answered as of an earlier moment.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from faregate.core.models import Response, WireRequest
from faregate.emulator.calls import CallInfo
from faregate.merchant.problems import TRANSACTION_NOT_FOUND
from faregate.service.app import Service
from faregate.service.http import HttpError, json_value_response
from faregate.service.receipts import build_transaction_detail
from faregate.service.records import TransactionRecord

LISTS: Final = ("transactions", "payers", "resources")
_TICK: Final = timedelta(microseconds=1)


def is_read(facts: CallInfo) -> bool:
    """Whether the operation can be answered by a replica."""
    return facts.environment is not None and facts.operation in ("transaction", *LISTS)


def build_stale_response(
    service: Service, facts: CallInfo, request: WireRequest, now: Response, seconds: float | None
) -> Response:
    """Build the answer of `seconds` ago, or from before the last change.

    A response other than 200 stays as it is, and so does a list with an `as_of` of its own.
    """
    if now.status != 200 or facts.environment is None:
        return now
    store = service.environments[facts.environment]
    then = None if seconds is None else store.clock.now() - timedelta(seconds=seconds)
    if facts.operation == "transaction":
        return _build_earlier_transaction(store.transactions[facts.transaction or ""], then)
    moment = then or _find_last_change(store.transactions.values())
    earlier = now if moment is None else service.respond(_add_as_of(request, moment))
    return earlier if earlier.status == 200 else now


def _build_earlier_transaction(record: TransactionRecord, moment: datetime | None) -> Response:
    """Build the transaction as it was then, or before its last change."""
    known = [status for began, status in record.history if moment is None or began <= moment]
    if moment is None:
        known.pop()
    if not known:
        return HttpError(TRANSACTION_NOT_FOUND, "there is no such transaction in this environment").response()
    shown = build_transaction_detail(record)
    if known[-1] != "succeeded":
        undone = dict.fromkeys(("settled_at", "settled_atomic", "transaction_hash", "receipt"))
        shown = shown.model_copy(update={**undone, "status": known[-1]})
    return json_value_response(shown.model_dump(mode="json", exclude_none=True))


def _find_last_change(records: Iterable[TransactionRecord]) -> datetime | None:
    """Return the moment just before the last change of these records."""
    last = max((record.history[-1][0] for record in records), default=None)
    return None if last is None else last - _TICK


def _add_as_of(request: WireRequest, moment: datetime) -> WireRequest:
    mark = "&" if "?" in request.path else "?"
    path = f"{request.path}{mark}as_of={quote(moment.isoformat())}"
    return WireRequest(request.method, path, request.headers, request.body)
