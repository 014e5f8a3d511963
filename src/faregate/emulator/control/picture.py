"""What the console shows, as JSON: transactions, calls, payers, totals. Pure.

Amounts are strings of atomic units. Keys are left out; proofs are decoded and their signatures shortened.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

from faregate.emulator.control.headers import answered_of, asked_of, promise, proof_of
from faregate.emulator.control.tally import Tally
from faregate.emulator.diary import RecordedCall
from faregate.emulator.facts import Facts
from faregate.emulator.ledger import SimulatedLedger
from faregate.merchant.requests import FailedCompleteRequest, SucceededCompleteRequest
from faregate.service.catalog import Listing
from faregate.service.config import World
from faregate.service.goods import Settlement
from faregate.service.records import STATUSES, PayerRecord, TransactionRecord
from faregate.service.state import Books
from faregate.service.test_payers import TEST_PAYERS
from faregate.x402.tokens import CURRENCIES, TOKENS

Json = dict[str, Any]
_LONGEST_BODY: Final = 4096
_BUILT_IN: Final = {one.key: one for one in World.builtin().resources}
_NAMES: Final = {payer.address.lower(): payer.name for payer in TEST_PAYERS.values()}


def transaction(
    record: TransactionRecord, asked: Json | None, calls: Sequence[tuple[int, str | None]]
) -> Json:
    """`asked` is the 402 before it; `calls` are numbers, each with the fault that struck it, oldest first.

    All that a row shows is here: a page has not all the calls.
    """
    terms, resource = record.sale.terms, record.sale.request.resource
    return {
        "id": record.id,
        "number": record.number,
        "status": record.status,
        "payer": record.payer.identifier,
        "payer_name": _NAMES.get(record.payment.payer),
        "resource": record.sale.listing.plan.key,
        "built_in": _is_built_in(record.sale.listing),
        "url": resource.url,
        "description": resource.description,
        "revision_id": record.sale.revision.id,
        "amount": str(terms.amount),
        "asset": terms.token.symbol,
        "created_at": _moment(record.created_at),
        "submitted_at": _moment(record.submitted_at),
        "history": [[_moment(at), status] for at, status in record.history],
        "asked": asked,
        "calls": [number for number, _ in calls],
        "faults": list(dict.fromkeys(fault for _, fault in calls if fault)),
        "completed": _completed(record.accepted),
        "rule": _rule(record.plan),
        "reads": record.reads,
        "proof": promise(record.payment),
        "receipt": record.settled.receipt.model_dump(mode="json") if record.settled else None,
        "transaction_hash": record.settled.transaction_hash if record.settled else None,
    }


def call(record: RecordedCall, facts: Facts) -> Json:
    """One call to the service and how it was answered."""
    response, delivery = record.response, record.delivery
    headers = response.headers if response else ()
    return {
        "number": record.number,
        "at": _moment(record.at),
        "method": record.method,
        "path": record.request.path[:2048],
        "operation": facts.operation,
        "resource": facts.resource,
        "payer": facts.payer,
        "transaction": facts.transaction,
        "body": (record.request.body or b"")[:_LONGEST_BODY].decode(errors="replace"),
        "status": record.status,
        "fault": record.fault,
        "delay": delivery.delay if delivery else 0,
        "ending": delivery.ending if delivery else None,
        "refusal": _refusal(record),
        "asked": asked_of(headers),
        "proof": proof_of(record.request.headers),
        "answered": answered_of(headers),
    }


def payer(books: Books, record: PayerRecord, now: datetime) -> Json:
    """A payer with what the simulated ledger has of it; `balances` is null behind another facilitator."""
    address = record.identifier
    count = record.transactions.count
    return {
        "address": address,
        "name": _NAMES.get(address.lower()),
        "transactions": count(now),
        "succeeded": count(now, "succeeded"),
        "balances": _balances(books, address),
        "held": {
            symbol: str(books.holds.of(TOKENS[books.environment, symbol].address, address.lower()))
            for symbol in CURRENCIES
        },
    }


def counts(books: Books, now: datetime) -> dict[str, int]:
    """Transactions by status."""
    return {status: books.register.count(now, status) for status in STATUSES}


def money(tally: Tally) -> Json:
    """Revenue by asset, and what ended when."""
    return {
        "revenue": _strings(tally.total.settled),
        "seconds": tally.seconds,
        "intervals": [[second, one.succeeded, one.failed, _strings(one.settled)] for second, one in tally],
    }


def _is_built_in(listing: Listing) -> bool:
    """Whether an emulator that is given nothing sells this, as it is sold here."""
    plan = listing.plan
    return plan == _BUILT_IN.get(plan.key) and len(listing.revisions) == len(plan.revisions)


def _rule(plan: Settlement | None) -> Json | None:
    """How a payment is to end."""
    return None if plan is None else plan.model_dump(mode="json", exclude_defaults=True)


def _balances(books: Books, address: str) -> dict[str, str] | None:
    if not isinstance(books.payments, SimulatedLedger):
        return None
    balance = books.payments.balance
    return {symbol: str(balance(TOKENS[books.environment, symbol], address)) for symbol in CURRENCIES}


def _completed(accepted: FailedCompleteRequest | SucceededCompleteRequest | None) -> Json | None:
    return None if accepted is None else accepted.model_dump(mode="json", exclude={"revision_id"})


def _refusal(record: RecordedCall) -> Json | None:
    """The error body of the contract, if this is one."""
    if record.response is None or record.response.status < 400:
        return None
    try:
        found = json.loads(record.response.body)
    except ValueError:
        return None
    return cast("Json", found) if isinstance(found, dict) else None


def _strings(amounts: dict[str, int]) -> dict[str, str]:
    return {asset: str(atomic) for asset, atomic in amounts.items()}


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
