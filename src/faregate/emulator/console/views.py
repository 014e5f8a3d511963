"""What the console shows, as JSON: transactions, calls, payers, totals. Pure.

Amounts are strings of atomic units. Keys are left out; proofs are decoded and their signatures shortened.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from faregate.core.instructions import parse_json
from faregate.core.models import Headers, header_values
from faregate.emulator.calls import CallInfo, RecordedCall
from faregate.emulator.console.histogram import Histogram
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.settlement import ALL
from faregate.merchant.requests import FailedCompleteRequest, SucceededCompleteRequest
from faregate.service.builtin import builtin_account
from faregate.service.catalog import Listing
from faregate.service.config import Settlement
from faregate.service.records import STATUSES, PayerRecord, TransactionRecord
from faregate.service.state import EnvironmentState
from faregate.service.test_payers import TEST_PAYERS
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.models import Payment
from faregate.x402.tokens import CURRENCIES, TOKENS

Json = dict[str, Any]
_LONGEST: Final = 16 * 1024


def decode_instructions(headers: Headers) -> Json | None:
    """What `PAYMENT-REQUIRED` says, as the emulator wrote it."""
    return _decode(headers, "payment-required")


def decode_payment_response(headers: Headers) -> Json | None:
    """What `PAYMENT-RESPONSE` says."""
    return _decode(headers, "payment-response")


def describe_proof(headers: Headers) -> Json | None:
    """What `PAYMENT-SIGNATURE` promises, or `unreadable` with the reason."""
    values = header_values(headers, "payment-signature")
    if not values:
        return None
    if len(values) > 1:
        return {"unreadable": "the header was sent more than once"}
    try:
        return describe_authorization(parse_payment(values[0]))
    except InvalidPayload as error:
        return {"unreadable": str(error)}


def describe_authorization(payment: Payment) -> Json:
    """The authorization of a payment."""
    accepted: Mapping[str, Any] = payment.accepted
    return {
        "from": payment.payer,
        "to": payment.to,
        "value": str(payment.value),
        "network": _clip(accepted.get("network")),
        "asset": _clip(accepted.get("asset")),
        "scheme": _clip(accepted.get("scheme")),
        "validAfter": str(payment.valid_after),
        "validBefore": str(payment.valid_before),
        "nonce": payment.nonce,
        "signature": f"{payment.signature[:10]}…{payment.signature[-4:]}",
    }


def _decode(headers: Headers, name: str) -> Json | None:
    values = header_values(headers, name)
    if not values or len(values[0]) > _LONGEST:
        return None
    try:
        found = parse_json(base64.b64decode(values[0], validate=True))
    except (ValueError, RecursionError):
        return {"unreadable": "not base64 of JSON"}
    return cast("Json", found) if isinstance(found, dict) else {"unreadable": "not a JSON object"}


def _clip(value: object) -> str:
    """What a payer claims may be of any kind and length."""
    return value[:200] if isinstance(value, str) else ""


_TEST_PAYERS: Final = {build_payer.address.lower(): build_payer for build_payer in TEST_PAYERS.values()}


def build_rules(books: EnvironmentState) -> Json:
    """`set` has a rule for each target that differs from `own`, what it began with; null is no rule."""
    found = {ALL: (books.settlement, None), **_list_resource_rules(books), **_list_payer_rules(books)}
    return {
        "set": [
            {
                "target": target,
                "name": _get_target_name(target),
                "rule": _dump_rule(rule),
                "own": _dump_rule(own),
            }
            for target, (rule, own) in found.items()
            if rule != own
        ],
        "resources": list(books.catalog.listings),
        "payers": [[one.address, one.name] for one in _list_test_payers(books)],
    }


_RulePair = tuple[Settlement | None, Settlement | None]
"""The rule there is, and the one there was at first."""


def _list_resource_rules(books: EnvironmentState) -> dict[str, _RulePair]:
    listings = books.catalog.listings
    return {key: (one.settlement, one.plan.settlement) for key, one in listings.items()}


def _list_payer_rules(books: EnvironmentState) -> dict[str, _RulePair]:
    own = {one.address.lower(): one.settlement for one in _list_test_payers(books)}
    there = books.payer_settlements
    return {address: (there.get(address), own.get(address)) for address in {**own, **there}}


def _list_test_payers(books: EnvironmentState) -> list[Any]:
    return list(TEST_PAYERS.values()) if books.environment == "test" else []


def _get_target_name(target: str) -> str | None:
    """The name of a test payer; what a resource is called is its key."""
    return (
        _TEST_PAYERS[target].name if target in _TEST_PAYERS else None if target.startswith("0x") else target
    )


def _dump_rule(rule: Settlement | None) -> Json | None:
    return None if rule is None else rule.model_dump(mode="json", exclude_defaults=True)


_LONGEST_BODY: Final = 4096
_BUILT_IN: Final = {one.key: one for one in builtin_account().resources}
_NAMES: Final = {build_payer.address.lower(): build_payer.name for build_payer in TEST_PAYERS.values()}


def build_transaction(
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
        "created_at": _format_moment(record.created_at),
        "submitted_at": _format_moment(record.submitted_at),
        "history": [[_format_moment(at), status] for at, status in record.history],
        "asked": asked,
        "calls": [number for number, _ in calls],
        "faults": list(dict.fromkeys(fault for _, fault in calls if fault)),
        "completed": _dump_outcome(record.accepted),
        "rule": _dump_plan(record.plan),
        "reads": record.reads,
        "proof": describe_authorization(record.payment),
        "receipt": record.settled.receipt.model_dump(mode="json") if record.settled else None,
        "transaction_hash": record.settled.transaction_hash if record.settled else None,
    }


def build_call(record: RecordedCall, facts: CallInfo) -> Json:
    """One call to the service and how it was answered."""
    response, delivery = record.response, record.delivery
    headers = response.headers if response else ()
    return {
        "number": record.number,
        "at": _format_moment(record.at),
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
        "refusal": _parse_error_body(record),
        "asked": decode_instructions(headers),
        "proof": describe_proof(record.request.headers),
        "answered": decode_payment_response(headers),
    }


def build_payer(books: EnvironmentState, record: PayerRecord, now: datetime) -> Json:
    """A payer with what the simulated ledger has of it; `balances` is null behind another facilitator."""
    address = record.identifier
    count = record.transactions.count
    return {
        "address": address,
        "name": _NAMES.get(address.lower()),
        "transactions": count(now),
        "succeeded": count(now, "succeeded"),
        "balances": _get_balances(books, address),
        "held": {
            symbol: str(books.holds.of(TOKENS[books.environment, symbol].address, address.lower()))
            for symbol in CURRENCIES
        },
    }


def count_by_status(books: EnvironmentState, now: datetime) -> dict[str, int]:
    """Transactions by status."""
    return {status: books.register.count(now, status) for status in STATUSES}


def build_money(tally: Histogram) -> Json:
    """Revenue by asset, and what ended when."""
    return {
        "revenue": _to_strings(tally.total.settled),
        "seconds": tally.seconds,
        "intervals": [[second, one.succeeded, one.failed, _to_strings(one.settled)] for second, one in tally],
    }


def _is_built_in(listing: Listing) -> bool:
    """Whether an emulator that is given nothing sells this, as it is sold here."""
    plan = listing.plan
    return plan == _BUILT_IN.get(plan.key) and len(listing.revisions) == len(plan.revisions)


def _dump_plan(plan: Settlement | None) -> Json | None:
    """How a payment is to end."""
    return None if plan is None else plan.model_dump(mode="json", exclude_defaults=True)


def _get_balances(books: EnvironmentState, address: str) -> dict[str, str] | None:
    if not isinstance(books.payments, SimulatedLedger):
        return None
    balance = books.payments.balance
    return {symbol: str(balance(TOKENS[books.environment, symbol], address)) for symbol in CURRENCIES}


def _dump_outcome(accepted: FailedCompleteRequest | SucceededCompleteRequest | None) -> Json | None:
    return None if accepted is None else accepted.model_dump(mode="json", exclude={"revision_id"})


def _parse_error_body(record: RecordedCall) -> Json | None:
    """The error body of the contract, if this is one."""
    if record.response is None or record.response.status < 400:
        return None
    try:
        found = json.loads(record.response.body)
    except ValueError:
        return None
    return cast("Json", found) if isinstance(found, dict) else None


def _to_strings(amounts: dict[str, int]) -> dict[str, str]:
    return {asset: str(atomic) for asset, atomic in amounts.items()}


def _format_moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
