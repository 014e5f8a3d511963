"""The app over real sockets: pages for operators, limits of rate, size and threads, a graceful end."""

import socket
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest
import uvicorn

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator
from faregate.rules.http import MAX_BODY
from faregate.service import asgi
from faregate.service.asgi import AppParts, ServiceApp
from faregate.service.callers import LoggedResponse
from faregate.service.commands.serve import build_server
from faregate.service.database.reports import PendingPayments
from faregate.service.metrics import ServiceMetrics
from faregate.service.operator_pages import OperatorParts, Readiness
from faregate.service.rate_limits import RateLimits
from faregate.system import get_url, open_listener, system_clock
from tests.support.waiting import eventually

BEARER = {"Authorization": f"Bearer {TEST_KEY}"}


@dataclass
class Backend:
    """An emulator that can be held up, and a database that may be away."""

    emulator: Emulator = field(default_factory=Emulator)
    gate: threading.Event = field(default_factory=threading.Event)
    under_way: int = 0
    fault: str = ""
    late: str = ""
    events: list[str] = field(default_factory=list)

    def respond(self, request: WireRequest) -> Response:
        self.under_way += 1
        if not request.path.endswith("/complete"):
            self.gate.wait(20)
        return self.emulator.respond(request)

    def check_readiness(self) -> Readiness:
        self.gate.wait(20)
        return Readiness(not self.fault, self.fault)

    def count_pending(self) -> PendingPayments:
        if self.fault:
            raise RuntimeError(self.fault)
        return PendingPayments(0, 3, system_clock())


def build_parts(backend: Backend) -> AppParts:
    return AppParts(
        respond=lambda request: LoggedResponse(backend.respond(request)),
        show_console=backend.respond,
        rate_limits=RateLimits(0, 0, time.monotonic),
        operator=OperatorParts(
            metrics=ServiceMetrics(
                clock=system_clock,
                read_pending=backend.count_pending,
                read_gas_balances=lambda: {"test": 0.25},
            ),
            find_late=lambda: backend.late,
            check_readiness=backend.check_readiness,
            begin=lambda: backend.events.append("begin"),
            end=lambda: backend.events.append("end"),
        ),
        threads=2,
    )


@contextmanager
def serving(parts: AppParts) -> Generator[tuple[httpx.Client, uvicorn.Server, threading.Thread]]:
    with open_listener() as listener:
        server = build_server(ServiceApp(parts), complete_seconds=1)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert eventually(lambda: server.started)
        try:
            with httpx.Client(
                base_url=get_url(listener), headers=BEARER, trust_env=False, timeout=30
            ) as client:
                yield client, server, thread
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def backend() -> Backend:
    backend = Backend()
    backend.gate.set()
    return backend


def test_the_merchant_api_and_the_pages_of_operators(backend: Backend) -> None:
    with serving(build_parts(backend)) as (client, _, _):
        assert client.get("/merchant/v1/payers").json()["items"] == []
        assert client.get("/merchant/v1/nowhere").status_code == 404
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").text == "ready\n"
        assert client.head("/readyz").status_code == 200
        text = client.get("/metrics").text
    assert 'faregate_service_requests_total{operation="payers",status="200"} 1.0' in text
    assert 'faregate_service_requests_total{operation="none",status="404"} 1.0' in text
    assert 'faregate_service_open_payments{status="reconciling"} 3.0' in text
    assert 'faregate_service_gas_balance_eth{environment="test"} 0.25' in text
    assert "faregate_service_oldest_pending_seconds" in text
    assert backend.events == ["begin", "end"]


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_is_led_from_the_root_to_the_console(backend: Backend, method: str) -> None:
    with serving(build_parts(backend)) as (client, _, _):
        led = client.request(method, "/", headers={"Accept": BROWSER})
        assert (led.status_code, led.headers["location"]) == (303, "/console")


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/", "*/*"),
        ("GET", "/", "application/json"),
        ("POST", "/", BROWSER),
        ("GET", "/merchant/v1", BROWSER),
    ],
)
def test_anything_else_gets_json(backend: Backend, method: str, path: str, accept: str) -> None:
    with serving(build_parts(backend)) as (client, _, _):
        answer = client.request(method, path, headers={"Accept": accept})
        assert (answer.status_code, answer.json()["code"]) == (404, "invalid_request")


def test_a_database_that_is_away_is_reported_and_the_metrics_stay(backend: Backend) -> None:
    backend.fault = "the database is away"
    with serving(build_parts(backend)) as (client, _, _):
        assert client.get("/healthz").status_code == 200
        page = client.get("/readyz")
        assert (page.status_code, page.text) == (503, "the database is away\n")
        assert "faregate_service_database_up 0.0" in client.get("/metrics").text


def test_a_process_lives_while_its_database_hangs(backend: Backend) -> None:
    backend.gate.clear()
    with serving(build_parts(backend)) as (client, _, _), ThreadPoolExecutor(4) as callers:
        waiting = [callers.submit(client.get, "/readyz") for _ in range(4)]
        assert client.get("/healthz", timeout=5).status_code == 200
        backend.gate.set()
        assert {call.result().status_code for call in waiting} == {200}


def test_a_loop_that_stands_still_is_unhealthy_by_name(backend: Backend) -> None:
    backend.late = "worker 3 has finished no round for 301 seconds"
    with serving(build_parts(backend)) as (client, _, _):
        page = client.get("/healthz")
        assert (page.status_code, page.text) == (503, f"{backend.late}\n")
        assert client.get("/readyz").status_code == 200


def test_too_many_requests_are_429_with_a_time(backend: Backend) -> None:
    parts = replace(build_parts(backend), rate_limits=RateLimits(2, 1, time.monotonic))
    with serving(parts) as (client, _, _):
        answers = [client.get("/merchant/v1/payers") for _ in range(8)]
        assert answers[0].status_code == 200
        limited = answers[-1]
        assert limited.status_code == 429
        assert limited.json()["code"] == "rate_limited"
        assert limited.json()["message"] == "too many requests with this key"
        assert limited.headers["Retry-After"] == "1"
        strangers = [client.get("/merchant/v1/payers", headers={"Authorization": ""}) for _ in range(4)]
        assert strangers[0].status_code == 401
        assert strangers[-1].status_code == 429
        assert strangers[-1].json()["message"] == "too many requests without a valid key from this address"
        assert client.get("/readyz").status_code == 200


def test_more_than_can_wait_are_503_and_the_pages_still_answer(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "WAITING_PER_THREAD", 1)
    backend.gate.clear()
    with serving(build_parts(backend)) as (client, _, _), ThreadPoolExecutor(5) as callers:
        calls = [callers.submit(client.get, "/merchant/v1/payers") for _ in range(5)]
        refused = next(as_completed(calls, 30)).result()
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert client.get("/metrics").status_code == 200
        backend.gate.set()
        assert sorted(call.result().status_code for call in calls) == [200, 200, 200, 200, 503]


def test_calls_that_wait_keep_no_completion_waiting(backend: Backend) -> None:
    """As accesses do while a facilitator is slow."""
    backend.gate.clear()
    with serving(build_parts(backend)) as (client, _, _), ThreadPoolExecutor(20) as callers:
        waiting = [callers.submit(client.get, "/merchant/v1/payers") for _ in range(20)]
        assert eventually(lambda: backend.under_way == 2)
        completed = client.post("/merchant/v1/transactions/txn_unknown/complete", json={}, timeout=5)
        assert completed.status_code == 422
        backend.gate.set()
        assert {call.result().status_code for call in waiting} == {200}


def test_running_requests_are_finished_before_the_end(backend: Backend) -> None:
    backend.gate.clear()
    with serving(build_parts(backend)) as (client, server, thread), ThreadPoolExecutor(1) as callers:
        call = callers.submit(client.get, "/merchant/v1/payers")
        assert eventually(lambda: backend.under_way == 1)
        server.should_exit = True
        assert eventually(lambda: not _accepts(client.base_url.port))
        assert backend.events == ["begin"]
        backend.gate.set()
        assert call.result().status_code == 200
        thread.join()
    assert backend.events == ["begin", "end"]


def _accepts(port: int | None) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port or 0), 1) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            return bool(peer.recv(1))
    except OSError:
        return False


def test_a_body_that_is_too_large_is_400(backend: Backend) -> None:
    with serving(build_parts(backend)) as (client, _, _):
        answer = client.post("/merchant/v1/access", content=b"x" * (MAX_BODY * 3))
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_body_that_does_not_come_is_400(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.2)
    head = b"POST /merchant/v1/access HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{"
    with (
        serving(build_parts(backend)) as (client, _, _),
        socket.create_connection(("127.0.0.1", client.base_url.port or 0), 10) as peer,
    ):
        peer.sendall(head)
        assert peer.recv(1000).startswith(b"HTTP/1.1 400")
    assert backend.under_way == 0


def test_the_console_counts_as_anonymous(backend: Backend) -> None:
    parts = replace(build_parts(backend), rate_limits=RateLimits(1000, 0.01, time.monotonic))
    with serving(parts) as (client, _, _):
        assert client.get("/merchant/v1/payers").status_code == 200  # gives the only token back
        assert client.get("/console").status_code == 404  # takes it
        assert client.get("/console").status_code == 429
        assert client.post("/console/login").status_code == 429
        assert client.get("/merchant/v1/payers").status_code == 200


def test_a_flood_from_another_address_keeps_out_no_valid_key(backend: Backend) -> None:
    parts = replace(build_parts(backend), rate_limits=RateLimits(1000, 1, time.monotonic))
    with serving(parts) as (client, _, _):
        guess = {"Authorization": "Bearer svc_test_guess", "X-Forwarded-For": "198.51.100.7"}
        refused = [client.get("/merchant/v1/payers", headers=guess) for _ in range(5)]
        assert [one.status_code for one in refused] == [401, 401, 429, 429, 429]
        assert refused[-1].json()["message"] == "too many requests without a valid key from this address"
        payers = client.get("/merchant/v1/payers", headers={"X-Forwarded-For": "198.51.100.8"})
        assert payers.status_code == 200
