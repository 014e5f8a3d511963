"""What must hold of any seller, whatever happened; each rule says what it can and cannot see. Pure."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from faregate.emulator.diary import REMEMBERED, Diary, RecordedCall
from faregate.emulator.proofs import BadProof, read_payment
from faregate.emulator.service import Service
from faregate.emulator.state import FINAL, TransactionRecord
from faregate.emulator.tokens import TOKENS
from faregate.merchant.answers import AccessDecision
from faregate.model import Headers, header_values


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
        record = None if answer.proof is None else _paid_by(service, answer.proof)
        if record is not None and record.status == "succeeded":
            purchases[answer.purchase][record.id] = None
    for charged in purchases.values():
        if len(charged) > 1:
            yield Finding(f"one purchase was charged {len(charged)} times: {', '.join(charged)}", (*charged,))


def charged_while_open(service: Service) -> Iterator[Finding]:
    """A payer charged twice for one URL, the second time authorized while the first was not final.

    Not certain: the service is told no query, and a payer may buy the same twice at once. And it does not
    see a payer who was asked again after the first payment had succeeded.
    """
    for books in service.books.values():
        before: dict[tuple[str, str], TransactionRecord] = {}
        for record in books.transactions.values():
            if record.status != "succeeded":
                continue
            use = record.payer.id, record.sale.request.resource.url
            first = before.get(use)
            if first is not None and record.created_at < first.history[-1][0]:
                ids = first.id, record.id
                yield Finding(f"{ids[1]} was charged beside {ids[0]}, for the same payer and URL", ids)
            if first is None or record.history[-1][0] > first.history[-1][0]:
                before[use] = record


def released_unpaid(service: Service, diary: Diary, answers: Iterable[Received]) -> Iterator[Finding]:
    """Results that left for a proof before its complete was answered `succeeded`, with its proof of payment.

    A result is a 2xx with a body, but a 202 that names a transaction and has no `PAYMENT-RESPONSE` is a
    request to wait. What was asked for without a proof, or had no price, is not judged.
    """
    calls = list(diary)
    for answer in answers:
        if answer.proof is None or not answer.priced or not _is_result(answer):
            continue
        told = [call for call in calls if call.number <= answer.calls and _carries(call, answer.proof)]
        if any(_allows(call) for call in told):
            continue
        record = _paid_by(service, answer.proof)
        if diary.count > REMEMBERED and record is not None and record.status == "succeeded":
            continue  # what allowed it may be forgotten
        about = "no transaction" if record is None else f"{record.id}, now {record.status}"
        yield Finding(
            f"a result ({answer.status}) left before the service proved its payment: {about}",
            () if record is None else (record.id,),
        )


def _is_result(answer: Received) -> bool:
    if not (200 <= answer.status < 300 and answer.body):
        return False
    proven = bool(header_values(answer.headers, "payment-response"))
    return proven or answer.status != 202 or b'"transaction_id"' not in answer.body


def _carries(call: RecordedCall, proof: str) -> bool:
    return header_values(call.request.headers, "payment-signature") == [proof]


def _allows(call: RecordedCall) -> bool:
    """Whether the seller was told, in a whole answer, that it may release."""
    delivery = call.delivery
    if delivery is None or delivery.ending != "whole" or delivery.response.status != 200:
        return False
    if call.operation == "access":
        return _is_free(delivery.response.body)
    return call.operation == "complete" and delivery.response.first("payment-response") is not None


def _is_free(body: bytes) -> bool:
    try:
        return AccessDecision.model_validate_json(body).transaction_id is None
    except ValueError:
        return False


def _records(service: Service) -> Iterator[TransactionRecord]:
    for books in service.books.values():
        yield from books.transactions.values()


def _paid_by(service: Service, proof: str) -> TransactionRecord | None:
    """The transaction that this proof authorized."""
    try:
        payment = read_payment(proof)
    except BadProof:
        return None
    for books in service.books.values():
        for token in TOKENS.values():
            record = books.user_of_token(token, payment)
            if record is not None and record.payment == payment:
                return record
    return None
