"""Connections that do not end, are too large or too many, over real sockets: others are served meanwhile."""

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from faregate import connections
from faregate.connections import MAX_CONNECTIONS, MAX_HEAD, count_allowed
from faregate.core.models import Response, WireRequest
from faregate.emulator import Emulator
from faregate.emulator.server import serve
from tests.service import test_server
from tests.service.command import build_environment
from tests.service.test_server import Backend, backend, build_parts
from tests.support.waiting import PATIENCE, eventually

__all__ = ["backend"]

HALF = b"GET /healthz HTTP/1.1\r\nhost: a\r\nx-slow: "
WHOLE = b"GET /merchant/v1/payers HTTP/1.1\r\nhost: a\r\n\r\n"
MEGABYTE = 1 << 20
FILES = 256
"""The limit of open files of a process: as little as some systems give."""


@contextmanager
def serving_service() -> Generator[int]:
    backend = Backend()
    backend.gate.set()
    with test_server.serving(build_parts(backend)) as (client, _, _):
        yield client.base_url.port or 0


@contextmanager
def serving_emulator() -> Generator[int]:
    with serve(Emulator()) as url:
        yield httpx.URL(url).port or 0


@pytest.fixture(params=[serving_service, serving_emulator], ids=["service", "emulator"])
def port(request: pytest.FixtureRequest) -> Generator[int]:
    with request.param() as port:
        yield port


def connect(port: int, data: bytes = b"") -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port), PATIENCE)
    peer.sendall(data)
    return peer


def read_to_end(peer: socket.socket) -> bytes:
    """What comes until the server ends the connection, in an orderly way or not."""
    received = b""
    try:
        while part := peer.recv(MEGABYTE):
            received += part
    except ConnectionResetError:
        pass
    return received


def send_until_cut(peer: socket.socket, parts: int, part: bytes) -> int:
    """Send `part` so many times; return how many were sent before the server ended the connection."""
    for number in range(parts):
        try:
            peer.sendall(part)
        except OSError:
            return number
    return parts


def check_health(client: httpx.Client) -> float:
    """Return the seconds that the quickest of a few health checks took: a busy machine delays single ones."""
    took: list[float] = []
    for _ in range(5):
        began = time.monotonic()
        assert client.get("/healthz").status_code == 200
        took.append(time.monotonic() - began)
    return min(took)


# Time


@pytest.mark.parametrize("sent", [b"", HALF, b"\r\n", b"GET /healthz HT"])
def test_a_request_that_does_not_come_ends_its_connection(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with connect(port, sent) as peer:
        assert read_to_end(peer) == b""


def test_a_head_that_trickles_has_no_more_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with connect(port, HALF) as peer:
        began = time.monotonic()
        while send_until_cut(peer, 1, b"a"):
            time.sleep(0.02)
            assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("sent", [HALF, b"\r\n"])
def test_the_next_request_of_a_connection_has_a_deadline_too(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(port, WHOLE) as peer:
        assert peer.recv(1000).startswith(b"HTTP/1.1 401")
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
        peer.sendall(sent)
        assert HALF not in read_to_end(peer)


def test_a_connection_is_used_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of one request is not that of the next."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with connect(port) as peer:
        for _ in range(4):
            peer.sendall(WHOLE[:20])
            time.sleep(0.2)
            peer.sendall(WHOLE[20:])
            assert peer.recv(4000).startswith(b"HTTP/1.1 401")


def test_the_rest_of_a_body_that_was_answered_is_not_awaited(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REST_SECONDS", 0.3)
    head = b"POST /merchant/v1/access HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n"
    with connect(port, head + b"x" * 100_000) as peer:
        began = time.monotonic()
        while send_until_cut(peer, 1, b"x"):
            time.sleep(0.02)
            assert time.monotonic() - began < PATIENCE


def test_a_body_that_does_not_come_ends_its_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the app waits for it for ever."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    head = b"POST /merchant/v1/access HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n"
    with connect(port, head + b"{") as peer:
        assert read_to_end(peer) == b""


def test_a_slow_answer_is_no_late_request(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a second request that stays half end the first one's answer."""
    for name in ("HEAD_SECONDS", "REQUEST_SECONDS", "REST_SECONDS"):
        monkeypatch.setattr(connections, name, 0.2)
    backend.gate.clear()
    with test_server.serving(build_parts(backend)) as (client, _, _):
        port = client.base_url.port or 0
        with connect(port, WHOLE) as peer, connect(port, WHOLE + HALF) as pipelining:
            assert eventually(lambda: backend.under_way == 2)
            time.sleep(0.8)
            backend.gate.set()
            for asking in (peer, pipelining):
                assert asking.recv(1000).startswith(b"HTTP/1.1 401")


@dataclass
class LargeAnswers(Backend):
    """More than the buffers of the operating system hold."""

    def respond(self, request: WireRequest) -> Response:
        return Response(200, (), b"x" * (32 * MEGABYTE))


@contextmanager
def asking_for_a_large_answer() -> Generator[tuple[socket.socket, Callable[[], bool]]]:
    """A client that has taken nothing yet, and whether the server has its connection still."""
    with (
        test_server.serving(build_parts(LargeAnswers())) as (client, server, _),
        connect(client.base_url.port or 0, WHOLE) as peer,
    ):
        assert eventually(lambda: server.server_state.total_requests == 1)
        yield peer, lambda: bool(server.server_state.connections)


def test_a_client_that_takes_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKE_SECONDS", 0.3)
    with asking_for_a_large_answer() as (_, is_connected):
        assert eventually(lambda: not is_connected(), 10)


def test_a_client_that_takes_an_answer_slowly_gets_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKE_SECONDS", 0.3)
    with asking_for_a_large_answer() as (peer, _):
        received = 0
        for _ in range(16):
            received += len(peer.recv(MEGABYTE, socket.MSG_WAITALL))
            time.sleep(0.1)
        while received < 32 * MEGABYTE:
            part = len(peer.recv(MEGABYTE))
            assert part
            received += part


def test_requests_that_are_sent_without_waiting_are_answered(port: int) -> None:
    with connect(port, WHOLE * 10) as peer:
        received = b""
        while received.count(b"HTTP/1.1 401") < 10:
            received += peer.recv(4000)


def test_no_more_requests_wait_on_a_connection_than_may(backend: Backend) -> None:
    backend.gate.clear()
    with test_server.serving(build_parts(backend)) as (client, _, _):
        with connect(client.base_url.port or 0, WHOLE) as peer:
            assert eventually(lambda: backend.under_way == 1)
            send_until_cut(peer, 1, WHOLE * 100)
            assert read_to_end(peer) == b""
        backend.gate.set()


# Size


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nhost: a\r\nx-large: ", id="header"),
        pytest.param(b"GET /", id="target"),
    ],
)
def test_a_head_of_a_megabyte_is_431_or_cut(port: int, begin: bytes) -> None:
    with connect(port, begin) as peer:
        send_until_cut(peer, 16, b"a" * (MEGABYTE // 16))
        send_until_cut(peer, 1, b"\r\n\r\n")
        answer = read_to_end(peer)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("lines", [1, 100])
def test_a_head_just_too_large_is_431(port: int, lines: int) -> None:
    """It comes in one piece, so it is read to its end."""
    header = b"x: " + b"a" * (MAX_HEAD // lines) + b"\r\n"
    with connect(port, b"GET /healthz HTTP/1.1\r\nhost: a\r\n" + header * lines + b"\r\n") as peer:
        assert read_to_end(peer).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


def test_trailers_after_a_body_are_bounded_too(port: int) -> None:
    head = (
        b"POST /merchant/v1/access HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    with connect(port, head + b"x-large: ") as peer:
        assert send_until_cut(peer, 96, b"a" * MEGABYTE) < 96


def test_a_proof_as_large_as_is_allowed_passes(port: int) -> None:
    proof = b"payment-signature: " + b"a" * (16 << 10) + b"\r\n"
    with connect(port, WHOLE.replace(b"\r\n\r\n", b"\r\n" + proof + b"\r\n")) as peer:
        assert peer.recv(1000).startswith(b"HTTP/1.1 401")


# Number


@contextmanager
def serving_with_few_files(folder: Path) -> Generator[tuple[httpx.Client, int]]:
    """A real process that may open `FILES` files; its pages, and its id."""
    command = [sys.executable, "-m", "faregate", "service", "serve", "--port", "0", "--json"]
    log = folder / "stderr.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *command],
            cwd=folder,
            env=build_environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            url = httpx.Response(200, text=process.stdout.readline()).json()["url"]
            with httpx.Client(
                base_url=url, trust_env=False, timeout=PATIENCE, headers={"Connection": "close"}
            ) as client:
                yield client, process.pid
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert "unable to open database file" not in log.read_text()


def read_memory(process: int) -> int:
    """The resident memory in bytes."""
    (line,) = [one for one in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in one]
    return int(line.split()[1]) * 1024


def test_a_flood_keeps_neither_health_checks_nor_sellers_nor_workers_out(tmp_path: Path) -> None:
    with serving_with_few_files(tmp_path) as (client, process), ExitStack() as flood:
        before, quiet = read_memory(process), check_health(client)
        port = client.base_url.port or 0
        for _ in range(300):
            peer = flood.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            send_until_cut(peer, 1, HALF)
        assert check_health(client) < 1 + 20 * quiet
        assert client.get("/readyz").status_code == 200  # its database opens
        assert client.get("/merchant/v1/payers").status_code == 401
        # And a header of 96 MB.
        with connect(port, HALF) as peer:
            assert send_until_cut(peer, 96, b"a" * MEGABYTE) < 96
        assert check_health(client) < 1 + 20 * quiet
        assert read_memory(process) - before < 20 * MEGABYTE


def test_requests_under_way_keep_their_places(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    backend.gate.clear()
    with test_server.serving(build_parts(backend)) as (client, _, _), ExitStack() as stack:
        port = client.base_url.port or 0
        asking = [stack.enter_context(connect(port, WHOLE)) for _ in range(2)]
        assert eventually(lambda: backend.under_way == 2)
        half = [stack.enter_context(connect(port, HALF)) for _ in range(5)]
        # The oldest ones have made room.
        for peer in half[:3]:
            assert read_to_end(peer) == b""
        for peer in half[3:]:
            peer.sendall(b"\r\n\r\n")
            assert peer.recv(1000).startswith(b"HTTP/1.1 200")
        backend.gate.set()
        for peer in asking:
            assert peer.recv(1000).startswith(b"HTTP/1.1 401")


def test_while_every_connection_is_being_answered_a_new_one_is_refused(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    backend.gate.clear()
    with test_server.serving(build_parts(backend)) as (client, _, _), ExitStack() as stack:
        port = client.base_url.port or 0
        asking = [stack.enter_context(connect(port, WHOLE)) for _ in range(2)]
        assert eventually(lambda: backend.under_way == 2)
        with connect(port) as refused:
            send_until_cut(refused, 1, WHOLE)
            assert read_to_end(refused) == b""
        backend.gate.set()
        for peer in asking:
            assert peer.recv(1000).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    ("files", "allowed"),
    [(256, 128), (1024, 512), (1_000_000, MAX_CONNECTIONS), (resource.RLIM_INFINITY, MAX_CONNECTIONS)],
)
def test_half_of_the_open_files_may_be_connections(
    files: int, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert count_allowed() == allowed
