"""What is read: transactions, lists, contracts (spec: Endpoints, Pagination rules)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.answers import Page, Transaction
from faregate.merchant.contracts import ContractsDocument
from faregate.merchant.wire import ROOT, parse
from faregate.probe.fixtures import Visit
from faregate.probe.session import unknown_id
from faregate.probe.verdicts import CannotSee, Check, Seen, judged, refused, shown

STATUSES = ("authorized", "settling", "reconciling", "failed", "succeeded")
_KEYS = ("x-svc-resource-integration-key", "x-svc-revision-key")


def _succeeded(visit: Visit) -> Seen:
    found = visit.transaction(visit.final)
    receipt = "a receipt" if found.receipt else "no receipt"
    if found.status == "failed":
        raise CannotSee("the payment of work that succeeded failed")
    return judged(found.status == "succeeded" and found.receipt is not None, f"{found.status}, {receipt}")


def _failed(visit: Visit) -> Seen:
    bought, reply = visit.failed
    if reply.status != 200:
        raise CannotSee(f"no work could be reported as failed: {shown(reply)}")
    found = visit.transaction(bought)
    receipt = "a receipt" if found.receipt else "no receipt"
    return judged(found.status == "failed" and found.receipt is None, f"{found.status}, {receipt}")


def _unknown(visit: Visit) -> Seen:
    return refused(visit.bench.line.get(f"/transactions/{unknown_id('txn')}"), 404, "transaction_not_found")


def _envelope(visit: Visit) -> Seen:
    page = _page(visit.bench.line.get("/transactions?page_size=1"))
    if page is None:
        return Seen("differs", "no list envelope")
    following = _page(visit.bench.line.get(page.next.removeprefix(ROOT))) if page.next else page
    if following is None:
        return Seen("differs", "next leads to no list")
    steady = (following.as_of, following.count) == (page.as_of, page.count)
    return judged(
        steady and len(page.items) <= 1, f"{page.count} in all, {'steady' if steady else 'not steady'}"
    )


def _page_size(visit: Visit) -> Seen:
    return refused(visit.bench.line.get("/transactions?page_size=101"), 422, "invalid_request")


def _future(visit: Visit) -> Seen:
    moment = quote((datetime.now(UTC) + timedelta(days=1)).isoformat())
    return refused(visit.bench.line.get(f"/transactions?as_of={moment}"), 422, "invalid_request")


def _statuses(visit: Visit) -> Seen:
    for status in STATUSES:
        reply = visit.bench.line.get(f"/transactions?status={status}&page_size=10")
        page = _page(reply)
        if page is None:
            return Seen("differs", f"{status}: {shown(reply)}")
        if any(item.status != status for item in page.items):
            return Seen("differs", f"{status}: others are listed too")
    return Seen("holds", "five filters")


def _unknown_status(visit: Visit) -> Seen:
    return refused(visit.bench.line.get("/transactions?status=of_no_kind"), 422, "invalid_request")


def _document(visit: Visit) -> Seen:
    reply = visit.bench.line.get("/contracts")
    try:
        schemas = parse(ContractsDocument, reply).components.schemas
    except BadAnswer as error:
        return Seen("differs", str(error))
    own = all(name == revision.revision_id for name, revision in schemas.items())
    return judged(reply.status == 200 and own, f"{shown(reply)}, {len(schemas)} revisions")


def _keys_on_request(visit: Visit) -> Seen:
    without, with_keys = (_schemas(visit, query) for query in ("", "?include_integration_key=true"))
    hidden = not any(key in schema for schema in without for key in _KEYS)
    there = all(key in schema for schema in with_keys for key in _KEYS)
    return judged(
        hidden and there, f"{'hidden' if hidden else 'there'}, on request {'there' if there else 'not'}"
    )


def _schemas(visit: Visit, query: str) -> list[dict[str, Any]]:
    reply = visit.bench.line.get(f"/contracts{query}")
    try:
        return list(json.loads(reply.body)["components"]["schemas"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CannotSee(f"the contracts cannot be read: {shown(reply)}") from None


def _page(reply: Response) -> Page[Transaction] | None:
    try:
        return parse(Page[Transaction], reply) if reply.status == 200 else None
    except BadAnswer:
        return None


CHECKS = (
    Check("transaction-succeeded", "contract", "succeeded, with its receipt", _succeeded),
    Check("transaction-failed", "contract", "failed, without a receipt", _failed),
    Check("transaction-unknown", "contract", "404 transaction_not_found", _unknown),
    Check("list-pages", "contract", "next keeps snapshot and count", _envelope),
    Check("list-page-size", "contract", "101: 422 invalid_request", _page_size),
    Check("list-future", "contract", "as_of tomorrow: 422 invalid_request", _future),
    Check("status-filter", "decision", "the five statuses filter", _statuses),
    Check("status-filter-unknown", "decision", "422 invalid_request", _unknown_status),
    Check("contracts-document", "contract", "200, the contracts document", _document),
    Check("contracts-keys", "contract", "keys only on request", _keys_on_request),
)
