"""How an answer travels: what a client sees of each ending on every mount, and what is left behind."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Thread
from time import monotonic

import anyio
import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from faregate.emulator import TEST_KEY, Emulator, Fault, app, transport
from faregate.emulator.asgi import ConnectionNotBreakable
from faregate.emulator.faults.models import Kind
from faregate.emulator.server import listen, serve
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import BadAnswer, NoAnswer
from faregate.system import get_url
from tests.support.patience import GRACE, grant_grace
from tests.support.waiting import eventually

from .seller import ROOT, bearer

PATH = f"{ROOT}/payers"
HEADERS = (("Authorization", f"Bearer {TEST_KEY}"),)
ENDINGS: dict[Kind, type[Exception]] = {
    "silence": httpx.ReadTimeout,
    "reset": httpx.ReadError,
    "cut": httpx.RemoteProtocolError,
}


@dataclass
class Served:
    emulator: Emulator
    server: uvicorn.Server
    client: httpx.Client

    @property
    def idle(self) -> bool:
        """No call is being answered."""
        return not self.server.server_state.tasks


@pytest.fixture(scope="module", params=["h11", "httptools"])
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The emulator in both of uvicorn's ways to speak HTTP."""
    emulator = Emulator()
    config = uvicorn.Config(app(emulator), http=request.param, ws="none", log_config=None)
    with listen() as listener:
        running = uvicorn.Server(config)
        thread = Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        url = get_url(listener)
        with httpx.Client(base_url=url, headers=dict(HEADERS), timeout=0.2, trust_env=False) as client:
            yield Served(emulator, running, client)
        running.should_exit = True
        thread.join()


def assert_nothing_left(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    assert eventually(lambda: served.idle)
    assert served.client.get(PATH).status_code == 200
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("kind", ENDINGS)
def test_an_ending_leaves_nothing_behind(
    server: Served, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    for method in ("GET", "POST"):
        server.emulator.faults.add(Fault(kind=kind))
        with pytest.raises(ENDINGS[kind]):
            server.client.request(method, PATH, content=b"{}" if method == "POST" else None)
    assert_nothing_left(server, caplog)


def test_a_client_that_leaves_ends_a_late_answer(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    server.emulator.faults.add(Fault(kind="latency", seconds=600))
    with pytest.raises(httpx.ReadTimeout):
        server.client.get(PATH)
    assert_nothing_left(server, caplog)


def test_half_of_the_body_arrives(server: Served) -> None:
    whole = server.client.get(PATH)
    server.emulator.faults.add(Fault(kind="cut"))
    with server.client.stream("GET", PATH) as answer:
        assert answer.headers["content-length"] == whole.headers["content-length"]
        parts = answer.iter_raw()
        half = next(parts)
        with pytest.raises(httpx.RemoteProtocolError):
            next(parts)
    assert (half[:12], len(half)) == (whole.content[:12], len(whole.content) // 2)


def test_the_next_call_on_a_reset_connection_is_a_new_one(server: Served) -> None:
    for _ in range(3):
        assert server.client.get(PATH).status_code == 200
        server.emulator.faults.add(Fault(kind="reset"))
        with pytest.raises(httpx.ReadError, match="reset by peer"):
            server.client.get(PATH)


def test_doubled_and_missing_headers_on_the_wire(server: Served) -> None:
    host, port = server.client.base_url.host, server.client.base_url.port
    server.emulator.faults.add(Fault(kind="doubled-header", header="Content-Type", value="text/html"))
    server.emulator.faults.add(Fault(kind="missing-header", header="content-type"))
    server.emulator.faults.add(Fault(kind="garbage"))
    heads = []
    for _ in range(3):
        with socket.create_connection((host, port), timeout=5) as raw:
            raw.sendall(f"GET {PATH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            head, _, body = b"".join(iter(lambda: raw.recv(65_536), b"")).lower().partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head
        assert head.count(b"content-length") == 1
        heads.append(head)
    assert [head.count(b"\r\ncontent-type: ") for head in heads] == [2, 0, 1]


@contextmanager
def silent_call(url: str) -> Iterator[None]:
    """Somebody who waits for ever."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port)) as raw:
        raw.sendall(f"GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        yield


@pytest.mark.parametrize("fault", [Fault(kind="silence"), Fault(kind="latency", seconds=600)])
def test_a_server_that_ends_waits_for_no_silence(
    fault: Fault, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grant_grace(monkeypatch)
    emulator = Emulator()
    emulator.faults.add(fault)
    with ExitStack() as calls:
        with serve(emulator) as url:
            calls.enter_context(silent_call(url))
            assert eventually(lambda: bool(emulator.calls()))
            began = monotonic()
        assert monotonic() - began < GRACE / 2
    assert capfd.readouterr().err == ""


# Without sockets


@pytest.mark.parametrize("kind", ENDINGS)
def test_the_httpx_transport_raises_what_a_socket_would(kind: Kind) -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind=kind, times=2))
    mount = transport(emulator)
    with httpx.Client(transport=mount, base_url="http://emulator") as client, pytest.raises(ENDINGS[kind]):
        client.get(PATH)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=mount, base_url="http://emulator") as client:
            with pytest.raises(ENDINGS[kind]):
                await client.get(PATH)
            assert (await client.get(PATH)).status_code == 401

    anyio.run(ask)
    assert [call.fault for call in emulator.calls()] == [f"{kind}-1", f"{kind}-1", None]


def test_the_httpx_transport_is_late_or_times_out_at_once() -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind="latency", seconds=0.05))
    emulator.faults.add(Fault(kind="latency", seconds=60))
    with httpx.Client(transport=transport(emulator), base_url="http://emulator", timeout=5) as client:
        began = monotonic()
        assert client.get(PATH, headers=bearer(TEST_KEY)).status_code == 200
        assert monotonic() - began >= 0.05
        with pytest.raises(httpx.ReadTimeout):
            client.get(PATH)
    assert monotonic() - began < 5


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind="silence", times=2), NoAnswer),
        (Fault(kind="reset", times=2), NoAnswer),
        (Fault(kind="cut", times=2), BadAnswer),
        (Fault(kind="latency", seconds=60, times=2), NoAnswer),
    ],
)
def test_the_embedded_emulator_fails_as_a_service_does(fault: Fault, error: type[Exception]) -> None:
    emulator = Emulator()
    emulator.faults.add(fault)
    inside = EmbeddedTransport(emulator)
    url = f"http://emulator{PATH}"
    with pytest.raises(error):
        inside.send("GET", url, HEADERS, None, 5)
    with pytest.raises(error):
        asyncio.run(inside.asend("GET", url, HEADERS, None, 5))
    assert inside.send("GET", url, HEADERS, None, 5).status == 200


@pytest.mark.parametrize("kind", ENDINGS)
def test_another_server_hears_at_once(kind: Kind) -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind=kind))
    with TestClient(app(emulator)) as client:
        with pytest.raises(ConnectionNotBreakable, match="only uvicorn"):
            client.get(PATH)
        assert client.get(PATH).status_code == 401
