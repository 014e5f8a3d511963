"""What the client sends is what the document allows: every operation, sync and async."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import anyio
import pytest

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import FaregateError
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.merchant.openapi import describe

from .conformance import Broken, Description, assert_request_conforms, description

TAIL = "0123456789ab7cde89abcdef01234567"
ACR, TXN, PYR, REX = (f"{prefix}_{TAIL}" for prefix in ("acr", "txn", "pyr", "rex"))
PROOF = "eyJ4IjoxfQ=="
KEY = "svc_test_seller"
METADATA = ResourceExecutionMetadata(
    duration_ms=0, response_content_type="text/html", response_size_bytes=2**53 - 1, response_status=599
)
MOMENTS = (
    datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=5, minutes=30))),
)


class Listener:
    """A transport that keeps what is sent, and says nothing of use."""

    def __init__(self) -> None:
        self.heard: list[WireRequest] = []

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        self.heard.append(WireRequest(method, "/" + url.split("/", 3)[3], tuple(headers), body))
        return Response(
            500, (("Content-Type", "application/json"),), b'{"code": "internal_error", "message": "no"}'
        )

    async def asend(self, *exchange: Any) -> Response:
        return self.send(*exchange)

    def close(self) -> None:
        """Nothing is open."""

    async def aclose(self) -> None:
        """Nothing is open."""


def bodies() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for url in (
        "https://seller.example",
        "http://[::1]:8443/a/%C3%A9",
        "https://seller.example/" + "a" * 2025,
    ):
        for more in ({}, {"description": ""}, {"description": "\N{GRINNING FACE}" * 500}):
            resource = AccessResource(url=url, mime_type="application/vnd.a+json", **more)
            for asset in ("EURC", "USDC"):
                request = AccessRequest(revision_id=ACR, resource=resource, settlement_asset=asset)
                yield "access", (request,)
                yield "access", (request, PROOF)
    for code in ("a", "Work.failed:timeout_1-2", "x" * 100):
        for metadata in (None, ResourceExecutionMetadata(), METADATA):
            failed = FailedCompleteRequest(revision_id=ACR, failure_code=code, resource_execution=metadata)
            yield "complete_transaction", (TXN, failed, PROOF)
    for values in ({}, {"input-tokens": "0", "a_b-c": "999999999999999999.999999999999"}):
        for metadata in (None, METADATA):
            done = SucceededCompleteRequest(revision_id=ACR, values=values, resource_execution=metadata)
            yield "complete_transaction", (TXN, done, PROOF)
    for metadata in (ResourceExecutionMetadata(), METADATA):
        closing = ResourceExecutionCompleteRequest(revision_id=ACR, resource_execution=metadata)
        yield "complete_resource_execution", (REX, closing)
    yield "get_transaction", (TXN,)
    yield "list_contracts", ()
    yield "list_contracts", (True,)


def queries() -> Iterator[tuple[str, dict[str, Any]]]:
    shared: list[dict[str, Any]] = [{}, {"order": "oldest"}, {"page": 2, "page_size": 100}]
    shared += [{"as_of": moment} for moment in MOMENTS]
    for asked in shared:
        for name in ("list_transactions", "list_payers", "list_resources"):
            yield name, asked
    for status in ("authorized", "settling", "reconciling", "failed", "succeeded"):
        yield "list_transactions", {"status": status, "payer_id": PYR, "order": "newest"}
    for archived in (True, False):
        yield "list_resources", {"archived": archived}


def blocking(listener: Listener) -> None:
    client = MerchantClient(KEY, "http://127.0.0.1:1", transport=listener)
    for name, given in bodies():
        with suppress(FaregateError):
            getattr(client, name)(*given)
    for name, asked in queries():
        with suppress(FaregateError):
            getattr(client, name)(**asked)


def awaiting(listener: Listener) -> None:
    async def tell() -> None:
        client = AsyncMerchantClient(KEY, "http://127.0.0.1:1", transport=listener)
        for name, given in bodies():
            with suppress(FaregateError):
                await getattr(client, name)(*given)
        for name, asked in queries():
            with suppress(FaregateError):
                await getattr(client, name)(**asked)

    anyio.run(tell)


@pytest.mark.parametrize("tell", [blocking, awaiting])
def test_every_request_conforms(tell: Callable[[Listener], None]) -> None:
    listener = Listener()
    tell(listener)
    for request in listener.heard:
        assert_request_conforms(request)
    called = {operation.name for one in listener.heard if (operation := description().operation(one))}
    assert len(called) == 8
    assert len(listener.heard) == len([*bodies(), *queries()])


def sent(path: str, body: object = None, *more: tuple[str, str]) -> WireRequest:
    headers: Headers = (("Authorization", f"Bearer {KEY}"), *more)
    if body is None:
        return WireRequest("GET", f"/merchant/v1{path}", headers)
    headers = (*headers, ("Content-Type", "application/json"))
    return WireRequest("POST", f"/merchant/v1{path}", headers, json.dumps(body).encode())


ACCESS = {
    "revision_id": ACR,
    "resource": {"url": "https://seller.example/a", "mime_type": "text/plain"},
    "settlement_asset": "USDC",
}
DONE = {"revision_id": ACR, "outcome": "succeeded", "values": {}}
SIGNED = ("PAYMENT-SIGNATURE", PROOF)


def resource(**changes: object) -> Any:
    return ACCESS | {"resource": {**ACCESS["resource"], **changes}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "request_",
    [
        sent("/access", ACCESS | {"revision_id": "acr_1"}),
        sent("/access", ACCESS | {"extra": 1}),
        sent("/access", ACCESS | {"settlement_asset": "DAI"}),
        sent("/access", resource(url="https://seller.example/a?b")),
        sent("/access", resource(url="https://user@seller.example/a")),
        sent("/access", resource(url="ftp://seller.example/a")),
        sent("/access", resource(url="https://seller.example/" + "a" * 2026)),
        sent("/access", resource(mime_type="text/plain; charset=utf-8")),
        sent("/access", resource(description="d" * 501)),
        sent("/access", resource(extra=1)),
        sent(f"/transactions/{TXN}/complete", DONE),
        sent("/transactions/txn_1/complete", DONE, SIGNED),
        sent(f"/transactions/{TXN}/complete", DONE | {"outcome": "unheard of"}, SIGNED),
        sent(f"/transactions/{TXN}/complete", DONE | {"failure_code": "x"}, SIGNED),
        sent(f"/transactions/{TXN}/complete", DONE | {"values": {"a": "1e3"}}, SIGNED),
        sent(f"/transactions/{TXN}/complete", DONE | {"values": {"A": "1"}}, SIGNED),
        sent(f"/transactions/{TXN}/complete", DONE | {"values": {"a": 1}}, SIGNED),
        sent(f"/transactions/{TXN}/complete", {"revision_id": ACR, "outcome": "failed"}, SIGNED),
        sent(f"/resource-executions/{REX}/complete", {"revision_id": ACR}),
        sent("/transactions?page=0"),
        sent("/transactions?page_size=101"),
        sent("/transactions?order=upwards"),
        sent("/transactions?status=unheard-of"),
        sent("/transactions?as_of=2026-01-02T03:04:05"),
        sent("/payers?status=failed"),
        sent("/contracts?page=1"),
        sent("/nothing"),
        WireRequest("GET", "/merchant/v1/payers"),
    ],
)
def test_other_requests_do_not(request_: WireRequest) -> None:
    with pytest.raises(Broken):
        assert_request_conforms(request_, DESCRIBED)


DESCRIBED = Description(describe())
