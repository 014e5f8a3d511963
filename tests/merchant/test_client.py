"""Both clients against the emulator, in this process and over a socket, and their addresses."""

import json
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import pytest

from faregate.core.models import Response
from faregate.emulator import READ_ONLY_TEST_KEY, TEST_KEY, Emulator, Wallet, transport
from faregate.emulator.server import serve
from faregate.errors import (
    BadAnswer,
    ConfigurationError,
    Forbidden,
    InvalidRequest,
    NoAnswer,
    PaymentRequired,
    ResourceExecutionNotFound,
    TransactionNotFound,
    Unauthenticated,
)
from faregate.merchant import client as module
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)

from .conftest import KEY, SPEAKERS, Speaker, get
from .samples import ACCESS, PAYER, REX, TXN, page
from .services import ok, says, service

WAYS = [*SPEAKERS, Speaker(None), Speaker("asyncio"), Speaker("trio")]
IN_PROCESS = WAYS[len(SPEAKERS) :]


class Both:
    """A sync or an async client, spoken to as if it were blocking."""

    def __init__(self, backend: str | None, key: str, url: str, **settings: Any) -> None:
        self._backend = backend
        self.client: Any = (MerchantClient if backend is None else AsyncMerchantClient)(key, url, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._backend is None:
                found = getattr(self.client, name)(*arguments, **named)
                return list(found) if name.startswith("iter_") else found
            return anyio.run(self._awaited, name, arguments, named, backend=self._backend)

        return call

    async def _awaited(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        found = getattr(self.client, name)(*arguments, **named)
        return [item async for item in found] if name.startswith("iter_") else await found


class Seller:
    """An emulator, and clients for it."""

    def __init__(self, emulator: Emulator, backend: str | None, url: str, transport: Any) -> None:
        self.emulator = emulator
        self.wallet = Wallet()
        self._how = (backend, url, transport)
        self.client = self.with_key(TEST_KEY)

    def with_key(self, key: str) -> Both:
        backend, url, transport = self._how
        return Both(backend, key, url, transport=transport)

    def request(self, resource: str = "text_summary") -> AccessRequest:
        sold = AccessResource(url="https://seller.example/x", mime_type="text/plain")
        revision = self.emulator.revision_id(resource)
        return AccessRequest(revision_id=revision, resource=sold, settlement_asset="USDC")

    def buy(self, resource: str = "text_summary") -> tuple[str, str]:
        """Transaction id and proof of an authorized payment."""
        with pytest.raises(PaymentRequired) as caught:
            self.client.access(self.request(resource))
        proof = self.wallet.pay(caught.value.instructions or "")
        return self.client.access(self.request(resource), proof).transaction_id, proof

    def succeeded(self, resource: str = "text_summary") -> SucceededCompleteRequest:
        return SucceededCompleteRequest(revision_id=self.emulator.revision_id(resource), values={})


@pytest.fixture(
    params=[*SPEAKERS, *IN_PROCESS], ids=[*map(repr, SPEAKERS), *(f"mounted-{w.backend}" for w in IN_PROCESS)]
)
def seller(request: pytest.FixtureRequest) -> Generator[Seller]:
    speaker: Speaker = request.param
    emulator = Emulator()
    if speaker in IN_PROCESS:
        yield Seller(emulator, speaker.backend, "http://emulator.invalid", transport(emulator))
    else:
        with serve(emulator) as url:
            yield Seller(emulator, speaker.backend, url, None)


def test_all_eight_operations(seller: Seller) -> None:
    client = seller.client
    transaction, proof = seller.buy()
    completed = client.complete_transaction(transaction, seller.succeeded(), proof)
    assert (completed.result.status, completed.result.transaction_id) == ("succeeded", transaction)
    assert completed.payment_response == completed.result.payment_response
    detail = client.get_transaction(transaction)
    assert detail.receipt == completed.result.receipt
    assert detail.settled_atomic == 10_000
    failed, failed_proof = seller.buy()
    gone = FailedCompleteRequest(revision_id=seller.emulator.revision_id("text_summary"), failure_code="x")
    assert client.complete_transaction(failed, gone, failed_proof).result.status == "failed"
    assert [one.id for one in client.list_transactions(status="succeeded").items] == [transaction]
    payer = client.list_payers().items[0]
    assert payer.identifier.lower() == seller.wallet.address.lower()
    assert client.list_transactions(payer_id=payer.id, order="oldest").count == 2
    assert client.list_resources(archived=True).items[0].name == "Old report"
    contracts = client.list_contracts(include_integration_key=True)
    keys = {one.integration_key for one in contracts.components.schemas.values()}
    assert "text_summary" in keys
    assert {one.integration_key for one in client.list_contracts().components.schemas.values()} == {None}


def test_a_free_execution_is_closed() -> None:
    emulator = Emulator(expose_execution_id=True)
    seller = Seller(emulator, None, "http://emulator.invalid", transport(emulator))
    decision = seller.client.access(seller.request("free_notes"))
    assert decision.transaction_id is None
    facts = ResourceExecutionMetadata(response_status=200)
    close = ResourceExecutionCompleteRequest(
        revision_id=emulator.revision_id("free_notes"), resource_execution=facts
    )
    closed = seller.client.complete_resource_execution(decision.resource_execution_id, close)
    assert closed.resource_execution_id == decision.resource_execution_id


def test_errors_are_the_contracts(seller: Seller) -> None:
    execution = ResourceExecutionCompleteRequest(
        revision_id=seller.emulator.revision_id("text_summary"),
        resource_execution=ResourceExecutionMetadata(),
    )
    with pytest.raises(Unauthenticated):
        seller.with_key("svc_test_unknown").list_payers()
    with pytest.raises(Forbidden):
        seller.with_key(READ_ONLY_TEST_KEY).access(seller.request())
    with pytest.raises(TransactionNotFound):
        seller.client.get_transaction(TXN)
    with pytest.raises(ResourceExecutionNotFound):
        seller.client.complete_resource_execution(REX, execution)
    with pytest.raises(InvalidRequest):
        seller.client.list_payers(page_size=101)
    with pytest.raises(InvalidRequest):
        seller.client.access(ACCESS)


def test_iterators_go_through_all_pages(seller: Seller) -> None:
    bought = [seller.buy()[0] for _ in range(5)]
    found = seller.client.iter_transactions(page_size=2, order="oldest")
    assert [one.id for one in found] == bought
    assert [one.id for one in seller.client.iter_transactions(page_size=5)] == bought[::-1]
    assert len(seller.client.iter_payers(page_size=1)) == 1
    names = [one.name for one in seller.client.iter_resources(page_size=3)]
    assert names == [one.name for one in seller.client.list_resources(page_size=100).items]
    assert seller.client.iter_transactions(status="failed") == []


def test_an_iterator_is_lazy_and_shows_one_snapshot() -> None:
    emulator = Emulator()
    seller = Seller(emulator, None, "http://emulator.invalid", transport(emulator))
    before = [seller.buy()[0] for _ in range(3)]
    asked = len(emulator.calls())
    found = MerchantClient(
        TEST_KEY, "http://emulator.invalid", transport=transport(emulator)
    ).iter_transactions(page_size=1)
    assert len(emulator.calls()) == asked
    seen = [next(found).id]
    assert len(emulator.calls()) == asked + 1
    seller.buy()
    assert seen + [one.id for one in found] == before[::-1]


def test_a_moment_without_a_zone_is_refused_before_anything_is_sent() -> None:
    sent: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(500)

    mount = httpx.MockTransport(handler)
    client = MerchantClient(KEY, "http://in.process", transport=mount)
    naive = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    with pytest.raises(ValueError, match="timezone"):
        client.list_payers(as_of=naive)
    assert sent == []


# Pages that a service should not give


@pytest.mark.parametrize(
    "following",
    [
        "//{canary}/merchant/v1/payers",
        "/\\{canary}/x",
        "http://{canary}/x",
        "/x#y",
        "/x y",
        "/é",
        "/x\r\nX: 1",
        "/x\x7f",
    ],
)
def test_the_key_never_goes_to_another_host(speaker: Speaker, following: str) -> None:
    with service(says(ok())) as canary:
        elsewhere = following.format(canary=canary.url.removeprefix("http://"))
        body = json.dumps(page(PAYER, following=elsewhere)).encode()
        with service(says(ok(body=body))) as merchant:
            client = Both(speaker.backend, KEY, merchant.url)
            with pytest.raises(BadAnswer):
                client.iter_payers()
        assert len(merchant.requests) == 1
        assert canary.connections == 0


def test_a_page_that_names_itself_ends() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=page(PAYER, following="/merchant/v1/payers?page=2"))

    client = MerchantClient(KEY, "http://in.process", transport=httpx.MockTransport(handler))
    with pytest.raises(BadAnswer, match="itself"):
        list(client.iter_payers())


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/merchant/v1/payers?a=%2F", "/merchant/v1/payers?a=%2F"),
        ("/", "/merchant/v1/payers", "/merchant/v1/payers"),
        ("/svc", "/merchant/v1/payers", "/svc/merchant/v1/payers"),
        ("/svc/", "/merchant/v1/payers", "/svc/merchant/v1/payers"),
        # A service that knows its prefix gives it in `next`; one behind a proxy does not.
        ("/svc", "/svc/merchant/v1/payers?page=2", "/svc/merchant/v1/payers?page=2"),
        ("/svc", "/svcx/merchant/v1/payers", "/svc/svcx/merchant/v1/payers"),
    ],
)
def test_addresses_are_joined_unchanged(speaker: Speaker, base: str, path: str, target: str) -> None:
    with service(says(ok())) as merchant:
        speaker.speak(merchant.url + base, get(path))
    assert merchant.requests[0].line == f"GET {target} HTTP/1.1"


@pytest.mark.parametrize(
    "url",
    [
        "", "api.example.com", "/path", "ftp://api.example.com", "file:///etc/passwd", "http://", "http:///x",
        "https://user:hunter2@api.example.com", "https://api.example.com?x=1", "https://api.example.com#x",
        "https://api.example.com/a b", "https://api.example.com\n", "https://bücher.example", "https://a:99999",
        "https://a:x", "https://a:0", "https://a\\@b", None, 5, b"https://api.example.com",
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_without_echo(url: Any) -> None:
    for kind in (MerchantClient, AsyncMerchantClient):
        with pytest.raises(ConfigurationError, match="base_url") as caught:
            kind(KEY, url)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_deadline_is_a_positive_number(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        MerchantClient(KEY, "http://127.0.0.1:1", timeout=seconds)


# What may be given as a transport


def test_an_unknown_transport_is_refused() -> None:
    for wrong in ("curl", 5, object()):
        with pytest.raises(ConfigurationError, match="transport"):
            MerchantClient(KEY, "http://127.0.0.1:1", transport=wrong)  # type: ignore[arg-type]  # on purpose


def test_an_object_that_can_send_is_a_transport() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def send(self, *call: Any) -> Any:
            self.seen.append(call)
            return Response(200, (), b'{"transaction_id":null}')

        def close(self) -> None:
            self.seen.append("closed")

    recorder = Recorder()
    with MerchantClient(KEY, "https://a", transport=recorder, timeout=3) as client:
        client.access(ACCESS)
    (method, url, headers, body, seconds), closed = recorder.seen
    assert (method, url, seconds, closed) == ("POST", "https://a/merchant/v1/access", 3, "closed")
    assert dict(headers)["Authorization"] == f"Bearer {KEY}"
    assert body == ACCESS.model_dump_json().encode()


def test_a_mount_that_is_sync_or_async_serves_that() -> None:
    class Blocking(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"transaction_id": None})

    class Awaiting(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await anyio.sleep(5 if request.url.host == "slow" else 0)
            return httpx.Response(200, json={"transaction_id": None})

    assert MerchantClient(KEY, "http://a", transport=Blocking()).access(ACCESS).transaction_id is None
    fast = AsyncMerchantClient(KEY, "http://a", transport=Awaiting())
    assert anyio.run(fast.access, ACCESS).transaction_id is None
    with pytest.raises(NoAnswer):
        anyio.run(AsyncMerchantClient(KEY, "http://slow", transport=Awaiting(), timeout=0.1).access, ACCESS)
    with pytest.raises(ConfigurationError, match="async"):
        MerchantClient(KEY, "http://a", transport=Awaiting()).access(ACCESS)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="blocking"):
        anyio.run(AsyncMerchantClient(KEY, "http://a", transport=Blocking()).access, ACCESS)  # type: ignore[arg-type]  # on purpose


def test_the_sync_and_the_async_client_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(module.MerchantClient) == public(module.AsyncMerchantClient)
    assert len(public(module.MerchantClient)) == 8 + 3
