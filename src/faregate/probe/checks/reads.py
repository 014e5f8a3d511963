"""Reads: transactions, lists and contracts (spec: Endpoints, Pagination rules)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.models import ContractsDocument, Page, Transaction
from faregate.merchant.requests import ROOT
from faregate.merchant.wire import parse
from faregate.probe.check import Check, Observation, SkipCheck, describe, judge, judge_error
from faregate.probe.fixtures import ProbeRun
from faregate.probe.session import AuthorizedTransaction, make_unknown_id
from faregate.rules.records import STATUSES

_KEY_FIELDS = ("x-svc-resource-integration-key", "x-svc-revision-key")


def _check_succeeded(run: ProbeRun) -> Observation:
    status, has_receipt, text = _read_status(run, run.settled_transaction)
    if status == "failed":
        raise SkipCheck("the payment for work that succeeded failed")
    return judge(status == "succeeded" and has_receipt, text)


def _check_failed(run: ProbeRun) -> Observation:
    transaction, response = run.failed_sale
    if response.status != 200:
        raise SkipCheck(f"complete accepted no failure: {describe(response)}")
    status, has_receipt, text = _read_status(run, transaction)
    return judge(status == "failed" and not has_receipt, text)


def _read_status(run: ProbeRun, transaction: AuthorizedTransaction) -> tuple[str | None, bool, str]:
    """Return the status, whether there is a receipt, and both as text."""
    detail = run.read_transaction(transaction)
    text = f"{detail.status}, {'a receipt' if detail.receipt else 'no receipt'}"
    return detail.status, detail.receipt is not None, text


def _check_unknown(run: ProbeRun) -> Observation:
    response = run.session.client.get(f"/transactions/{make_unknown_id('txn')}")
    return judge_error(response, 404, "transaction_not_found")


def _check_pages(run: ProbeRun) -> Observation:
    page = _parse_page(run.session.client.get("/transactions?page_size=1"))
    if page is None:
        return Observation("fail", "no list envelope")
    following = _parse_page(run.session.client.get(page.next.removeprefix(ROOT))) if page.next else page
    if following is None:
        return Observation("fail", "next leads to no list")
    stable = (following.as_of, following.count) == (page.as_of, page.count)
    text = f"{page.count} in all, snapshot {'kept' if stable else 'not kept'}"
    return judge(stable and len(page.items) <= 1, text)


def _check_page_size(run: ProbeRun) -> Observation:
    return judge_error(run.session.client.get("/transactions?page_size=101"), 422, "invalid_request")


def _check_future(run: ProbeRun) -> Observation:
    moment = quote((datetime.now(UTC) + timedelta(days=1)).isoformat())
    return judge_error(run.session.client.get(f"/transactions?as_of={moment}"), 422, "invalid_request")


def _check_status_filter(run: ProbeRun) -> Observation:
    for status in STATUSES:
        response = run.session.client.get(f"/transactions?status={status}&page_size=10")
        page = _parse_page(response)
        if page is None:
            return Observation("fail", f"{status}: {describe(response)}")
        if any(item.status != status for item in page.items):
            return Observation("fail", f"{status}: lists other statuses too")
    return Observation("pass", "five filters")


def _check_unknown_status(run: ProbeRun) -> Observation:
    return judge_error(run.session.client.get("/transactions?status=of_no_kind"), 422, "invalid_request")


def _check_contracts(run: ProbeRun) -> Observation:
    response = run.session.client.get("/contracts")
    try:
        schemas = parse(ContractsDocument, response).components.schemas
    except BadAnswer as error:
        return Observation("fail", str(error))
    consistent = all(name == revision.revision_id for name, revision in schemas.items())
    return judge(response.status == 200 and consistent, f"{describe(response)}, {len(schemas)} revisions")


def _check_integration_keys(run: ProbeRun) -> Observation:
    default, requested = (_read_schemas(run, query) for query in ("", "?include_integration_key=true"))
    hidden = not any(field in schema for schema in default for field in _KEY_FIELDS)
    shown = all(field in schema for schema in requested for field in _KEY_FIELDS)
    text = f"{'hidden' if hidden else 'shown'}, on request {'shown' if shown else 'hidden'}"
    return judge(hidden and shown, text)


def _read_schemas(run: ProbeRun, query: str) -> list[dict[str, Any]]:
    response = run.session.client.get(f"/contracts{query}")
    try:
        return list(json.loads(response.body)["components"]["schemas"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SkipCheck(f"the contracts cannot be read: {describe(response)}") from None


def _parse_page(response: Response) -> Page[Transaction] | None:
    try:
        return parse(Page[Transaction], response) if response.status == 200 else None
    except BadAnswer:
        return None


CHECKS = (
    Check("transaction-succeeded", "contract", "succeeded, with its receipt", _check_succeeded),
    Check("transaction-failed", "contract", "failed, without a receipt", _check_failed),
    Check("transaction-unknown", "contract", "404 transaction_not_found", _check_unknown),
    Check("list-pages", "contract", "next keeps snapshot and count", _check_pages),
    Check("list-page-size", "contract", "422 invalid_request for 101", _check_page_size),
    Check("list-future", "contract", "422 invalid_request for as_of tomorrow", _check_future),
    Check("status-filter", "decision", "the five statuses filter", _check_status_filter),
    Check("status-filter-unknown", "decision", "422 invalid_request", _check_unknown_status),
    Check("contracts-document", "contract", "200, the contracts document", _check_contracts),
    Check("contracts-keys", "contract", "keys only on request", _check_integration_keys),
)
