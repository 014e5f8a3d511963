"""Reads that are behind: what a copy of the service would say that has not heard of the latest. Pure.

A transaction that the copy has not heard of is 404; a list is one of an earlier `as_of`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from faregate.emulator.books import Books
from faregate.emulator.facts import Facts
from faregate.emulator.receipts import item
from faregate.emulator.replies import Refusal, answer_value
from faregate.emulator.service import Service
from faregate.emulator.state import TransactionRecord
from faregate.model import Response, WireRequest

LISTS: Final = ("transactions", "payers", "resources")
_TICK: Final = timedelta(microseconds=1)


def is_read(facts: Facts, request: WireRequest) -> bool:
    """Whether this can be behind: a list with an `as_of` of its own cannot."""
    if facts.environment is None:
        return False
    return facts.operation == "transaction" or (facts.operation in LISTS and "as_of=" not in request.path)


def stale(
    service: Service, facts: Facts, request: WireRequest, now: Response, seconds: float | None
) -> Response:
    """The answer of `seconds` ago, or from before the last change; one that is not 200 stays as it is."""
    if now.status != 200 or facts.environment is None:
        return now
    books = service.books[facts.environment]
    if facts.operation in LISTS:
        moment = _moment(books, books.transactions.values(), seconds)
        then = now if moment is None else service.respond(_as_of(request, moment))
        return then if then.status == 200 else now
    record = books.transactions[facts.transaction or ""]
    moment = _moment(books, (record,), seconds)
    return now if moment is None else _transaction(record, moment)


def _moment(books: Books, records: Iterable[TransactionRecord], seconds: float | None) -> datetime | None:
    if seconds is not None:
        return books.timeline.now() - timedelta(seconds=seconds)
    last = max((record.history[-1][0] for record in records), default=None)
    return None if last is None else last - _TICK


def _transaction(record: TransactionRecord, moment: datetime) -> Response:
    if moment < record.created_at:
        return Refusal(
            404, "transaction_not_found", "there is no such transaction in this environment"
        ).response()
    shown = item(record, moment).model_dump(mode="json", exclude_none=True)
    if record.settled is not None and record.status_at(moment) == "succeeded":
        shown["receipt"] = record.settled.receipt.model_dump(mode="json", exclude_none=True)
    return answer_value(shown)


def _as_of(request: WireRequest, moment: datetime) -> WireRequest:
    mark = "&" if "?" in request.path else "?"
    path = f"{request.path}{mark}as_of={quote(moment.isoformat())}"
    return WireRequest(request.method, path, request.headers, request.body)
