"""Invariants that hold for every correct seller. Each says what it can see and what it cannot."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from faregate.core.models import Headers, header_values
from faregate.emulator.calls import MAX_CALLS, CallLog, RecordedCall, parse_fields
from faregate.merchant.models import AccessDecision
from faregate.rules.app import Service
from faregate.rules.records import FINAL, TransactionRecord


class InvariantBroken(AssertionError):
    """A seller broke an invariant; the text names the transactions."""


class ReceivedResponse(Protocol):
    """A response that a payer received. `proof` is the one it had sent, None without one.

    `purchase` is the same for all requests for one thing that the payer wants once. `priced` is true if this
    request had been answered 402 before. `calls` is how many calls the service had received by then.
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
class Violation:
    """One violation; `transactions` are the ids concerned."""

    about: str
    transactions: tuple[str, ...] = ()


def find_open_transactions(service: Service) -> Iterator[Violation]:
    """Find transactions that are not final, so that it is unknown whether they are charged."""
    for record in _iter_records(service):
        if record.status not in FINAL:
            yield Violation(f"{record.id} is still {record.status}", (record.id,))


def find_double_charges(service: Service, answers: Iterable[ReceivedResponse]) -> Iterator[Violation]:
    """Find purchases charged more than once. Certain, because the payers say what was one purchase."""
    purchases: defaultdict[Hashable, dict[str, None]] = defaultdict(dict)
    for answer in answers:
        record = None if answer.proof is None else find_paid_by(service, answer.proof)
        if record is not None and record.status == "succeeded":
            purchases[answer.purchase][record.id] = None
    for charged in purchases.values():
        if len(charged) > 1:
            yield Violation(
                f"one purchase was charged {len(charged)} times: {', '.join(charged)}", (*charged,)
            )


def find_overlapping_charges(service: Service, log: CallLog) -> Iterator[Violation]:
    """Find payers charged twice for one URL, before the seller knew how the first payment ended.

    Not certain: the service does not see the query, and a payer may buy the same twice at once. A payer who
    was asked to pay again afterwards is not found.
    """
    begun, reported = _find_first_calls(log)
    before: dict[tuple[str, str], TransactionRecord] = {}
    for record in _iter_records(service):
        if record.status != "succeeded" or record.id not in begun:
            continue
        use = record.payer.id, record.context.request.resource.url
        first = before.get(use)
        if first is not None and begun[record.id] < reported.get(first.id, log.count + 1):
            ids = first.id, record.id
            yield Violation(f"{ids[1]} was charged beside {ids[0]}, for the same payer and URL", ids)
        before[use] = record


def _find_first_calls(log: CallLog) -> tuple[dict[str, int], dict[str, int]]:
    """Return the call that began each transaction, and the call whose answer gave the seller its end."""
    begun: dict[str, int] = {}
    reported: dict[str, int] = {}
    for call in log:
        if call.undone or call.transaction is None or call.status != 200:
            continue
        if call.operation == "access":
            begun.setdefault(call.transaction, call.number)
        elif call.delivery is not None and call.delivery.ending == "whole" and _reports_final_status(call):
            reported.setdefault(call.transaction, call.number)
    return begun, reported


def _reports_final_status(call: RecordedCall) -> bool:
    """Whether the answer, of complete or of reading one transaction, has a final status."""
    return call.response is not None and parse_fields(call.response).get("status") in FINAL


def _iter_records(service: Service) -> Iterator[TransactionRecord]:
    for store in service.environments.values():
        yield from store.transactions.values()


def find_paid_by(service: Service, proof: str) -> TransactionRecord | None:
    """Find the transaction that this proof authorized."""
    records = (store.find_by_proof(proof) for store in service.environments.values())
    return next((record for record in records if record is not None), None)


def find_unpaid_releases(
    service: Service, log: CallLog, answers: Iterable[ReceivedResponse]
) -> Iterator[Violation]:
    """Find results released for a proof before its complete was answered with a proof of payment.

    A result is a 2xx with a body, except a 202 with a transaction id and without `PAYMENT-RESPONSE`: that is
    a request to wait. Requests without a proof or without a price are not judged.
    """
    calls = list(log)
    for answer in answers:
        if answer.proof is None or not answer.priced or not _is_result(answer):
            continue
        reported = [call for call in calls if call.number <= answer.calls and _has_proof(call, answer.proof)]
        if any(_allows_release(call) for call in reported):
            continue
        record = find_paid_by(service, answer.proof)
        if log.count > MAX_CALLS and record is not None and record.status == "succeeded":
            continue  # what allowed it may be forgotten
        about = "no transaction" if record is None else f"{record.id}, now {record.status}"
        yield Violation(
            f"a result ({answer.status}) left before the service proved its payment: {about}",
            () if record is None else (record.id,),
        )


def _is_result(answer: ReceivedResponse) -> bool:
    if not (200 <= answer.status < 300 and answer.body):
        return False
    proven = bool(header_values(answer.headers, "payment-response"))
    return proven or answer.status != 202 or b'"transaction_id"' not in answer.body


def _has_proof(call: RecordedCall, proof: str) -> bool:
    return header_values(call.request.headers, "payment-signature") == [proof]


def _allows_release(call: RecordedCall) -> bool:
    """Whether a complete answer to this call let the seller release."""
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


def raise_violations(findings: list[Violation]) -> None:
    """Raise `InvariantBroken` if there is a finding."""
    if findings:
        raise InvariantBroken("\n".join(finding.about for finding in findings))
