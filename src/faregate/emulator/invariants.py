"""What must hold of any seller, whatever happened; each rule says what it can and cannot see. Pure."""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from faregate.core.models import Headers
from faregate.emulator.diary import Diary, RecordedCall
from faregate.service.app import Service
from faregate.service.records import FINAL, TransactionRecord


class InvariantBroken(AssertionError):
    """A seller did what no seller may; the text says which transactions it was about."""


class Received(Protocol):
    """What a payer got of a seller. `proof` is what it had sent, None if it sent none.

    `purchase` is the same for all requests for one thing that the payer wants once. `priced` says that this
    very request had been answered 402 before. `calls` is how many calls the service had had by then.
    """

    @property
    def purchase(self) -> Hashable: ...
    @property
    def proof(self) -> str | None: ...
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def body(self) -> bytes: ...
    @property
    def priced(self) -> bool: ...
    @property
    def calls(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach; `transactions` are the ids it is about."""

    about: str
    transactions: tuple[str, ...] = ()


def left_open(service: Service) -> Iterator[Finding]:
    """Transactions that are not final: nobody knows yet whether they are charged."""
    for record in _records(service):
        if record.status not in FINAL:
            yield Finding(f"{record.id} is still {record.status}", (record.id,))


def charged_twice(service: Service, answers: Iterable[Received]) -> Iterator[Finding]:
    """Purchases charged more than once. Certain: the payers say what was one purchase."""
    purchases: defaultdict[Hashable, dict[str, None]] = defaultdict(dict)
    for answer in answers:
        record = None if answer.proof is None else paid_by(service, answer.proof)
        if record is not None and record.status == "succeeded":
            purchases[answer.purchase][record.id] = None
    for charged in purchases.values():
        if len(charged) > 1:
            yield Finding(f"one purchase was charged {len(charged)} times: {', '.join(charged)}", (*charged,))


def charged_while_open(service: Service, diary: Diary) -> Iterator[Finding]:
    """A payer charged twice for one URL, before the seller had been told how the first payment ended.

    Not certain: the service is told no query, and a payer may buy the same twice at once. And it does not
    see a payer who was asked again after that.
    """
    begun, told = _first_calls(diary)
    before: dict[tuple[str, str], TransactionRecord] = {}
    for record in _records(service):
        if record.status != "succeeded" or record.id not in begun:
            continue
        use = record.payer.id, record.sale.request.resource.url
        first = before.get(use)
        if first is not None and begun[record.id] < told.get(first.id, diary.count + 1):
            ids = first.id, record.id
            yield Finding(f"{ids[1]} was charged beside {ids[0]}, for the same payer and URL", ids)
        before[use] = record


def _first_calls(diary: Diary) -> tuple[dict[str, int], dict[str, int]]:
    """The call with which each transaction began, and the one whose answer told the seller its end."""
    begun: dict[str, int] = {}
    told: dict[str, int] = {}
    for call in diary:
        if call.undone or call.transaction is None or call.status != 200:
            continue
        if call.operation == "access":
            begun.setdefault(call.transaction, call.number)
        elif call.delivery is not None and call.delivery.ending == "whole" and _tells_the_end(call):
            told.setdefault(call.transaction, call.number)
    return begun, told


def _tells_the_end(call: RecordedCall) -> bool:
    """Complete and the read of one transaction say its status."""
    try:
        return json.loads(call.response.body if call.response else b"null")["status"] in FINAL
    except (ValueError, TypeError, KeyError):
        return False


def _records(service: Service) -> Iterator[TransactionRecord]:
    for books in service.books.values():
        yield from books.transactions.values()


def paid_by(service: Service, proof: str) -> TransactionRecord | None:
    """The transaction that this proof authorized."""
    found = (books.user_of_proof(proof) for books in service.books.values())
    return next((record for record in found if record is not None), None)
