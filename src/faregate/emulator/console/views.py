"""Format transactions, calls, payers, rules and totals as the JSON that the console shows. Pure.

Amounts are strings of atomic units. Keys are left out; proofs are decoded and their signatures shortened.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from faregate.core.models import Headers, header_values
from faregate.emulator.calls import CallInfo, RecordedCall, parse_fields
from faregate.emulator.console.histogram import Histogram
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.settlement_control import ALL
from faregate.rules.account import SettlementRule
from faregate.rules.builtin_account import builtin_account
from faregate.rules.catalog import Listing
from faregate.rules.memory_store import MemoryStore
from faregate.rules.published_payers import TEST_PAYERS, TestPayer
from faregate.rules.records import STATUSES, PayerRecord, TransactionRecord
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.instructions import parse_json
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import CURRENCIES, TOKENS

Json = dict[str, Any]
_MAX_HEADER: Final = 16 * 1024
_MAX_BODY: Final = 4096
_MAX_PATH: Final = 2048
_MAX_CLAIM: Final = 200
_BUILT_IN: Final = {resource.key: resource for resource in builtin_account().resources}
_NAMES: Final = {payer.address.lower(): payer.name for payer in TEST_PAYERS.values()}


def format_transaction(
    record: TransactionRecord, challenge: Json | None, calls: Sequence[tuple[int, str | None]]
) -> Json:
    """Format a transaction with all that its row shows, because the page does not have all calls.

    `challenge` is the 402 before it. `calls` are numbers, each with the fault that affected it, oldest first.
    """
    terms, resource = record.context.terms, record.context.request.resource
    return {
        "id": record.id,
        "number": record.number,
        "status": record.status,
        "payer": record.payer.identifier,
        "payer_name": _NAMES.get(record.payment.payer),
        "resource": record.context.listing.resource.key,
        "built_in": _is_built_in(record.context.listing),
        "url": resource.url,
        "description": resource.description,
        "revision_id": record.context.revision.id,
        **_format_price(terms, record.used_atomic),
        "asset": terms.token.symbol,
        "created_at": _format_moment(record.created_at),
        "submitted_at": _format_moment(record.submitted_at),
        "history": [[_format_moment(at), status] for at, status in record.history],
        "asked": challenge,
        "calls": [number for number, _ in calls],
        "faults": list(dict.fromkeys(fault for _, fault in calls if fault)),
        "completed": record.accepted.model_dump(mode="json", exclude={"revision_id"})
        if record.accepted
        else None,
        "rule": _format_rule(record.plan),
        "reads": record.reads,
        "proof": _format_payment(record.payment),
        "receipt": record.settled.receipt.model_dump(mode="json") if record.settled else None,
        "transaction_hash": record.settled.transaction_hash if record.settled else None,
    }


def format_call(record: RecordedCall, info: CallInfo) -> Json:
    response, delivery = record.response, record.delivery
    headers = response.headers if response else ()
    return {
        "number": record.number,
        "at": _format_moment(record.at),
        "method": record.method,
        "path": record.request.path[:_MAX_PATH],
        "operation": info.operation,
        "resource": info.resource,
        "payer": info.payer,
        "transaction": info.transaction,
        "body": (record.request.body or b"")[:_MAX_BODY].decode(errors="replace"),
        "status": record.status,
        "fault": record.fault,
        "delay": delivery.delay if delivery else 0,
        "ending": delivery.ending if delivery else None,
        "refusal": _parse_error_body(record),
        "asked": _decode_header(headers, "payment-required"),
        "proof": _decode_proof(record.request.headers),
        "answered": _decode_header(headers, "payment-response"),
    }


def format_payer(store: MemoryStore, record: PayerRecord, now: datetime) -> Json:
    """Format a payer and its balances, which are null if another ledger than the simulated one has them."""
    address = record.identifier
    count = record.transactions.count
    return {
        "address": address,
        "name": _NAMES.get(address.lower()),
        "transactions": count(now),
        "succeeded": count(now, "succeeded"),
        "balances": _get_balances(store, address),
        "held": {
            symbol: str(
                store.reservations.get_total(TOKENS[store.environment, symbol].address, address.lower())
            )
            for symbol in CURRENCIES
        },
    }


def format_resources(store: MemoryStore, now: datetime) -> list[Json]:
    """Format what is sold, with prices: in the order of the account, what is archived last."""
    listings = sorted(store.catalog.listings.values(), key=lambda listing: listing.is_archived(now))
    return [
        {
            "key": listing.resource.key,
            "name": listing.resource.name,
            **_format_price(store.terms(listing, listing.active), None),
            "asset": listing.active.rules.asset,
            "free": not listing.require_payment,
            "archived": listing.is_archived(now),
        }
        for listing in listings
    ]


def format_rules(store: MemoryStore) -> Json:
    """Format how payments end: `set` has a rule for each target whose rule differs from the initial one.

    `own` is the initial rule; null is no rule.
    """
    rules = {ALL: (store.settlement, None), **_get_resource_rules(store), **_get_payer_rules(store)}
    return {
        "set": [
            {
                "target": target,
                "name": _get_target_name(target),
                "rule": _format_rule(rule),
                "own": _format_rule(initial),
            }
            for target, (rule, initial) in rules.items()
            if rule != initial
        ],
        "resources": list(store.catalog.listings),
        "payers": [[test_payer.address, test_payer.name] for test_payer in _list_test_payers(store)],
    }


def format_money(histogram: Histogram) -> Json:
    """Format revenue by asset, and the payments that ended over time."""
    intervals = [
        [second, count.succeeded, count.failed, _format_amounts(count.settled)] for second, count in histogram
    ]
    return {
        "revenue": _format_amounts(histogram.total.settled),
        "seconds": histogram.seconds,
        "intervals": intervals,
    }


def count_by_status(store: MemoryStore, now: datetime) -> dict[str, int]:
    return {status: store.index.count(now, status) for status in STATUSES}


_RulePair = tuple[SettlementRule | None, SettlementRule | None]
"""The current rule and the initial one."""


def _get_resource_rules(store: MemoryStore) -> dict[str, _RulePair]:
    listings = store.catalog.listings
    return {key: (listing.settlement, listing.resource.settlement) for key, listing in listings.items()}


def _get_payer_rules(store: MemoryStore) -> dict[str, _RulePair]:
    initial = {test_payer.address.lower(): test_payer.settlement for test_payer in _list_test_payers(store)}
    current = store.payer_settlements
    return {address: (current.get(address), initial.get(address)) for address in {**initial, **current}}


def _list_test_payers(store: MemoryStore) -> list[TestPayer]:
    return list(TEST_PAYERS.values()) if store.environment == "test" else []


def _get_target_name(target: str) -> str | None:
    """Return a test payer's name or a resource's key; None for any other address."""
    return _NAMES.get(target) or (None if target.startswith("0x") else target)


def _format_rule(rule: SettlementRule | None) -> Json | None:
    return None if rule is None else rule.model_dump(mode="json", exclude_defaults=True)


def _is_built_in(listing: Listing) -> bool:
    """Return whether the emulator's built-in account sells this resource, unchanged."""
    plan = listing.resource
    return plan == _BUILT_IN.get(plan.key) and len(listing.revisions) == len(plan.revisions)


def _get_balances(store: MemoryStore, address: str) -> dict[str, str] | None:
    if not isinstance(store.ledger, SimulatedLedger):
        return None
    balance = store.ledger.balance
    return {symbol: str(balance(TOKENS[store.environment, symbol], address)) for symbol in CURRENCIES}


def _parse_error_body(record: RecordedCall) -> Json | None:
    """Return the error body of the contract, None if the response has none."""
    if record.response is None or record.response.status < 400:
        return None
    return parse_fields(record.response) or None


def _decode_proof(headers: Headers) -> Json | None:
    """Decode `PAYMENT-SIGNATURE`; `unreadable` has the reason if that fails."""
    values = header_values(headers, "payment-signature")
    if not values:
        return None
    if len(values) > 1:
        return {"unreadable": "the header was sent more than once"}
    try:
        return _format_payment(parse_payment(values[0]))
    except InvalidPayload as error:
        return {"unreadable": str(error)}


def _format_payment(payment: SignedPayment) -> Json:
    accepted: Mapping[str, Any] = payment.accepted
    return {
        "from": payment.payer,
        "to": payment.to,
        "value": str(payment.value),
        "network": _shorten(accepted.get("network")),
        "asset": _shorten(accepted.get("asset")),
        "scheme": _shorten(accepted.get("scheme")),
        "validAfter": str(payment.valid_after),
        "validBefore": str(payment.valid_before),
        "nonce": payment.nonce,
        "signature": f"{payment.signature[:10]}…{payment.signature[-4:]}",
    }


def _decode_header(headers: Headers, name: str) -> Json | None:
    """Decode a header of base64-encoded JSON; `unreadable` has the reason if that fails."""
    values = header_values(headers, name)
    if not values or len(values[0]) > _MAX_HEADER:
        return None
    try:
        decoded = parse_json(base64.b64decode(values[0], validate=True))
    except (ValueError, RecursionError):
        return {"unreadable": "not base64 of JSON"}
    return cast("Json", decoded) if isinstance(decoded, dict) else {"unreadable": "not a JSON object"}


def _shorten(value: object) -> str:
    # A payer may claim anything here, of any type and length.
    return value[:_MAX_CLAIM] if isinstance(value, str) else ""


def _format_amounts(amounts: dict[str, int]) -> dict[str, str]:
    return {asset: str(atomic) for asset, atomic in amounts.items()}


def _format_price(terms: Terms, used: int | None) -> dict[str, str | None]:
    """Format a price: `maximum` is null if it is fixed, `amount` until the use is reported."""
    if terms.scheme == "exact":
        return {"amount": str(terms.amount), "maximum": None}
    return {"amount": None if used is None else str(used), "maximum": str(terms.amount)}


def _format_moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
