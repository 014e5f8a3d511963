"""Three mounts over one state: Starlette, an httpx transport, sync and async, a server."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from faregate.core.models import WireRequest
from faregate.emulator import TEST_KEY, Emulator, ManualClock, Wallet, app, transport
from faregate.emulator.server import listen, serve
from faregate.errors import ConfigurationError
from faregate.merchant import wire
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ListQuery,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    ResourceQuery,
    SucceededCompleteRequest,
    TransactionQuery,
)
from faregate.merchant.requests import Call

from .seller import bearer

T = TypeVar("T")
URL = "http://emulator.test"


def test_all_mounts_show_one_state() -> None:
    emulator = Emulator()
    with (
        serve(emulator) as url,
        httpx.Client(base_url=url, headers=bearer(TEST_KEY), trust_env=False) as served,
        httpx.Client(base_url=URL, transport=transport(emulator), headers=bearer(TEST_KEY)) as direct,
        TestClient(app(emulator), headers=bearer(TEST_KEY)) as mounted,
    ):
        path = "/merchant/v1/resources?page_size=2&order=oldest&as_of=2026-01-01T00:00:00Z"
        answers = [client.get(path) for client in (served, direct, mounted)]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
    assert len(emulator.calls()) == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_transport_serves_async_clients(backend: str) -> None:
    emulator = Emulator()

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport(emulator), base_url=URL) as client:
            return await client.post("/merchant/v1/access", json={}, headers=bearer(TEST_KEY))

    assert anyio.run(ask, backend=backend).status_code == 422


def test_one_transport_serves_sync_and_async_clients() -> None:
    mount = transport(Emulator())
    with httpx.Client(transport=mount, base_url=URL, headers=bearer(TEST_KEY)) as client:
        assert client.get("/merchant/v1/payers").json()["items"] == []

    async def ask() -> int:
        async with httpx.AsyncClient(transport=mount, base_url=URL, headers=bearer(TEST_KEY)) as client:
            return (await client.get("/merchant/v1/payers")).status_code

    assert anyio.run(ask) == 200


def test_the_app_can_be_mounted_below_a_path() -> None:
    outer = Starlette(routes=[Mount("/sërvice/a", app=app(Emulator()))])
    with TestClient(outer, headers=bearer(TEST_KEY)) as client:
        assert client.get("/sërvice/a/merchant/v1/payers").status_code == 200
        assert (
            client.get("/sërvice/a/merchant/v1/transactions/a%2Fb").json()["code"] == "transaction_not_found"
        )
        assert client.get("/sërvice/a/nothing").json()["code"] == "invalid_request"


def test_the_app_does_without_raw_path() -> None:
    inner = app(Emulator())

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        scope.pop("raw_path", None)
        await inner(scope, receive, send)

    with TestClient(outer, headers=bearer(TEST_KEY)) as client:
        assert client.get("/merchant/v1/payers?page=1").status_code == 200


def test_a_body_without_end_is_answered() -> None:
    inner = app(Emulator())
    sent: list[Message] = []

    async def receive() -> Message:
        await anyio.sleep(0)
        return {"type": "http.request", "body": b"a" * 1000, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/merchant/v1/access",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {TEST_KEY}".encode())],
    }

    async def ask() -> None:
        with anyio.fail_after(10):
            await inner(scope, receive, send)

    anyio.run(ask)
    assert sent[0]["status"] == 400


def test_a_long_body_is_400() -> None:
    """Good JSON behind three megabytes of spaces: it is not read so far."""
    emulator = Emulator()
    content = wire.access(access_request(emulator)).request.body
    assert content is not None
    with serve(emulator) as url, httpx.Client(headers=bearer(TEST_KEY), trust_env=False) as client:
        short, long = (
            client.post(f"{url}/merchant/v1/access", content=content.rjust(size))
            for size in (len(content), 3_000_000)
        )
    assert (short.status_code, long.status_code) == (402, 400)
    assert "longer than" in long.json()["message"]


def test_many_threads_share_one_emulator() -> None:
    emulator = Emulator()
    call = wire.access(access_request(emulator))
    instructions = emulator.respond(signed(call.request)).first("payment-required")
    assert instructions is not None
    proof = Wallet().pay(instructions)
    request = signed(wire.access(access_request(emulator), proof).request)
    with ThreadPoolExecutor(8) as pool:
        bodies = {reply.body for reply in pool.map(emulator.respond, [request] * 64)}
    assert len(bodies) == 1
    assert [call.status for call in emulator.calls()] == [402] + [200] * 64


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_only_loopback_addresses_are_served(host: str) -> None:
    with pytest.raises(ConfigurationError, match="loopback"):
        listen(host)


def test_a_port_in_use_is_a_sentence() -> None:
    with listen() as first, pytest.raises(ConfigurationError, match="give another port"):
        listen(port=first.getsockname()[1])


@pytest.mark.parametrize("package", ["eth_keys", "starlette", "uvicorn"])
def test_a_missing_package_names_the_extra(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import faregate.emulator"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ModuleNotFoundError: The emulator needs {package}: pip install 'faregate[emulator]'"


def access_request(emulator: Emulator, resource: str = "text_summary") -> AccessRequest:
    return AccessRequest(
        revision_id=emulator.revision_id(resource),
        resource=AccessResource(url="https://seller.example/a", mime_type="text/plain"),
        settlement_asset="USDC",
    )


def signed(request: WireRequest) -> WireRequest:
    pair = ("Authorization", f"Bearer {TEST_KEY}")
    return WireRequest(request.method, request.path, (*request.headers, pair), request.body)


def test_the_eight_calls_of_the_client_are_understood() -> None:
    """What `faregate.merchant.wire` sends and reads, against the emulator."""
    emulator = Emulator(clock=ManualClock(), expose_execution_id=True)
    wallet = Wallet(clock=emulator.clock)

    def ask(call: Call[T]) -> T:
        return call.read(emulator.respond(signed(call.request)))

    request = access_request(emulator)
    instructions = emulator.respond(signed(wire.access(request).request)).first("payment-required")
    assert instructions is not None
    proofs = [wallet.pay(instructions) for _ in range(2)]
    bought = [ask(wire.access(request, proof)).transaction_id or "" for proof in proofs]
    succeeded = SucceededCompleteRequest(revision_id=request.revision_id, values={"input-tokens": "1"})
    done = ask(wire.complete_transaction(bought[0], succeeded, proofs[0]))
    assert done.result.receipt is not None
    assert done.payment_response == done.result.payment_response
    failed = FailedCompleteRequest(revision_id=request.revision_id, failure_code="work_failed")
    assert ask(wire.complete_transaction(bought[1], failed, proofs[1])).result.status == "failed"
    assert ask(wire.get_transaction(bought[0])).receipt == done.result.receipt
    listing = wire.list_transactions(TransactionQuery(status="succeeded", page_size=1))
    assert [item.id for item in ask(listing).items] == [bought[0]]
    page = ask(wire.list_payers(ListQuery()))
    assert page.items[0].identifier == wallet.address
    resources = wire.list_resources(ResourceQuery(archived=False, page_size=5, as_of=page.as_of))
    following = wire.next_page(ask(resources), resources)
    assert following is not None
    assert len(ask(following).items) == 2
    assert len(ask(wire.list_contracts(include_integration_key=True)).components.schemas) == 7
    free = ask(wire.access(access_request(emulator, "free_notes")))
    assert free.transaction_id is None
    closing = ResourceExecutionCompleteRequest(
        revision_id=emulator.revision_id("free_notes"), resource_execution=ResourceExecutionMetadata()
    )
    closed = ask(wire.complete_resource_execution(free.resource_execution_id or "", closing))
    assert closed.resource_execution_id == free.resource_execution_id


def test_a_server_that_is_stopped_at_once_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn leaves its sockets open if it is to end before it started, and uvloop hangs on them."""
    stopped_early: list[bool] = []
    startup = uvicorn.Server.startup

    async def slow_startup(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await anyio.sleep(0.1)
        await startup(self, sockets)
        stopped_early.append(self.should_exit)

    monkeypatch.setattr(uvicorn.Server, "startup", slow_startup)
    with serve(Emulator()):
        pass
    assert stopped_early == [False]
