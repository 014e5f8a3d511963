"""Paths that are not ASCII, prices that nothing runs, logins, what a view leaves open, browsers."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests import django_site
from tests.django_site import databases

django_site.ready()

from django.contrib.auth.decorators import login_required  # noqa: E402
from django.contrib.auth.mixins import LoginRequiredMixin  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.signals import request_finished  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connections  # noqa: E402
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from ninja import NinjaAPI  # noqa: E402
from rest_framework.decorators import api_view  # noqa: E402
from rest_framework.permissions import IsAuthenticated  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.views import APIView  # noqa: E402
from rest_framework.viewsets import ViewSet  # noqa: E402

from faregate.django import PaywallMiddleware, conf, paid  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.emulator import TEST_KEY, Emulator, Wallet  # noqa: E402
from faregate.emulator.transports import EmbeddedTransport  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from faregate.journals.persistent import PersistentJournal  # noqa: E402
from faregate.merchant.client import MerchantClient  # noqa: E402
from tests.servers.http import serving, serving_wsgi  # noqa: E402
from tests.support.headers import decode_header  # noqa: E402
from tests.support.waiting import eventually  # noqa: E402

CONTENT = "paid content"
SOLD = paid("daily_report")
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "faregate.django.PaywallMiddleware",
]


def content(_request: Any, /, **_parts: str) -> HttpResponse:
    return HttpResponse(CONTENT)


@dataclass
class Site:
    """A project being served, and the seller's own client at the service behind it."""

    service: MerchantClient
    http: httpx.Client

    def ask(self, place: str, proof: str | None = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(place, headers=named | ({} if proof is None else {"PAYMENT-SIGNATURE": proof}))

    def buy(self, place: str, **headers: str) -> httpx.Response:
        unpaid = self.ask(place)
        assert (unpaid.status_code, CONTENT in unpaid.text) == (402, False), unpaid.text
        return self.ask(place, Wallet().pay(unpaid.headers["payment-required"]), **headers)

    @property
    def statuses(self) -> list[str]:
        return [transaction.status or "" for transaction in self.service.iter_transactions()]


Serve = Callable[..., Any]


@contextmanager
def serving_site(
    interface: str, *routes: Any, faregate: dict[str, Any] | None = None, **settings: Any
) -> Generator[Site]:
    transport: Any = EmbeddedTransport(Emulator())
    service: Any = {"base_url": "http://service.example", "api_key": TEST_KEY, "transport": transport}
    said = {name.upper(): value for name, value in service.items()}
    said |= {"PUBLIC_URL": "https://seller.example", "JOURNAL": "memory:", **(faregate or {})}
    settings = {"MIDDLEWARE": MIDDLEWARE, "ROOT_URLCONF": routes, **settings}
    with override_settings(FAREGATE=said, **settings):
        awaiting = interface == "asgi"
        app: Any = get_asgi_application() if awaiting else get_wsgi_application()
        server = serving(app, lifespan="off") if awaiting else serving_wsgi(app)
        with server as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as http:
            yield Site(MerchantClient(**service), http)


@pytest.fixture(params=["wsgi", "asgi"])
def serve(request: pytest.FixtureRequest) -> Serve:
    return partial(serving_site, request.param)


# Paths


@pytest.mark.parametrize("place", ["/café", "/日本", "/%E6%97%A5%E6%9C%AC"])
def test_a_free_path_in_any_script_is_served(serve: Serve, place: str) -> None:
    with serve(path("café", content), path("日本", content)) as site:
        assert site.ask(place).text == CONTENT


def test_a_paid_path_in_any_script_is_named_as_payers_asked_for_it(serve: Serve) -> None:
    with serve(path("日本", SOLD(content))) as site:
        told = decode_header(site.ask("/日本").headers["payment-required"])
        assert told["resource"]["url"] == "https://seller.example/%E6%97%A5%E6%9C%AC"
        assert site.buy("/日本").text == CONTENT


@pytest.mark.parametrize("prefix", ["/gründ", "/日本"])
def test_a_prefix_in_any_script_is_sold_and_closed(serve: Serve, prefix: str) -> None:
    routes = [path("gründ/<path:rest>", content), path("日本/<path:rest>", content)]
    with serve(*routes, faregate={"OFFERS": {prefix: "daily_report"}}) as site:
        assert site.buy(f"{prefix}/x").text == CONTENT
    with serve(*routes, faregate={"REFUSE": [prefix]}) as site:
        assert (site.ask(f"{prefix}/x").status_code, site.statuses) == (403, [])


def test_a_project_does_not_start_with_two_offers_of_a_prefix_and_a_view(serve: Serve) -> None:
    routes = [path("sold/two", SOLD(content))]
    with (
        pytest.raises(ConfigurationError, match="its path is sold as 'text_summary': no payer can buy it"),
        serve(*routes, faregate={"OFFERS": {"/sold": "text_summary"}}),
    ):
        pass


# What stands above a price


def test_a_login_above_a_class_s_price_comes_first_and_costs_nothing(serve: Serve) -> None:
    class Kind(View):
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    sold = method_decorator([login_required, SOLD], name="dispatch")(Kind)
    with serve(path("kind", sold.as_view())) as site:
        assert site.ask("/kind").status_code == 302


def test_a_price_above_ninja_s_router_is_an_error_and_never_free() -> None:
    def operation(request: HttpRequest) -> str:
        return CONTENT

    routed: Any = NinjaAPI(urls_namespace="edges").get("/x")(operation)
    with pytest.raises(ConfigurationError, match=r"@api\.get above @paid"):
        SOLD(routed)


def test_an_async_generator_is_no_view() -> None:
    async def endless(_request: HttpRequest) -> AsyncGenerator[bytes]:
        yield b"paid content"

    with pytest.raises(ConfigurationError, match="StreamingHttpResponse"):
        SOLD(endless)


def test_a_class_and_a_method_with_two_prices_are_an_error() -> None:
    class Two(View):
        @paid("text_summary")
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    routes = (path("two", method_decorator(SOLD, name="dispatch")(Two).as_view()),)
    with override_settings(FAREGATE={"BASE_URL": "emulator:"}, ROOT_URLCONF=routes):
        inventory = list_routes()
    assert [row.access for row in inventory.routes] == ["refused"]
    assert "no payer can buy" in inventory.problems[0]


# What a view leaves open


class Chunks:
    """A stream that knows whether it was closed."""

    def __init__(self, *chunks: bytes, error: Exception | None = None) -> None:
        self.chunks, self.error, self.closed = iter(chunks), error, 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (lambda: Chunks(b"paid ", b"content"), 200),
        (lambda: Chunks(b"paid ", error=ZeroDivisionError("half-way")), 500),
        (lambda: Chunks(*[b"x" * 60] * 9), 500),
    ],
    ids=["whole", "broken off", "too large"],
)
def test_a_stream_is_closed_once_and_the_request_is_over_once(
    serve: Serve, stream: Callable[[], Chunks], status: int
) -> None:
    given, over = list[Chunks](), list[int]()

    @paid("daily_report", max_result_bytes=200)
    def view(_request: HttpRequest) -> StreamingHttpResponse:
        given.append(stream())
        return StreamingHttpResponse(given[-1])

    def finished(**_: Any) -> None:
        over.append(1)

    with serve(path("stream", view)) as site:
        proof = Wallet().pay(site.ask("/stream").headers["payment-required"])
        time.sleep(0.1)
        request_finished.connect(finished)
        try:
            assert site.ask("/stream", proof).status_code == status
            time.sleep(0.1)
        finally:
            request_finished.disconnect(finished)
        assert (given[0].closed, len(given), len(over)) == (1, 1, 1)
        assert site.statuses == ["succeeded" if status == 200 else "failed"]


# Browsers, and the log


def test_a_seller_who_exposes_headers_hides_none_of_ours(serve: Serve) -> None:
    origin = "https://shop.example"
    cors = {
        "MIDDLEWARE": ["corsheaders.middleware.CorsMiddleware", *MIDDLEWARE],
        "CORS_ALLOWED_ORIGINS": [origin],
        "CORS_EXPOSE_HEADERS": ["X-Own"],
    }
    with serve(path("paid", SOLD(content)), **cors) as site:
        for answer in (site.ask("/paid", Origin=origin), site.buy("/paid", Origin=origin)):
            exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
            assert {"X-Own", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE"} <= exposed


def test_a_price_that_was_logged_is_no_warning(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with serve(path("paid", SOLD(content))) as site:
        assert site.ask("/paid").status_code == 402
        assert site.ask("/missing").status_code == 404
    assert [record.getMessage() for record in caplog.records if record.name == "django.request"] == [
        "Not Found: /missing"
    ]


# Transactions


def test_with_atomic_requests_a_method_s_price_is_asked_outside_the_transaction(serve: Serve) -> None:
    class Plain(View):
        @SOLD
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    class ByDecorator(View):
        @method_decorator(SOLD)
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    class Rest(APIView):
        @SOLD
        def get(self, request: Request) -> HttpResponse:
            return HttpResponse(CONTENT)

    class Restful(ViewSet):
        @SOLD
        def list(self, request: Request) -> HttpResponse:
            return HttpResponse(CONTENT)

    routes = [
        path("plain", Plain.as_view()),
        path("decorated", ByDecorator.as_view()),
        path("rest", Rest.as_view()),
        path("set", Restful.as_view({"get": "list"})),
        path("function", api_view(["GET"])(SOLD(content))),
    ]
    connections.settings["default"]["ATOMIC_REQUESTS"] = True
    try:
        with serve(*routes, faregate={"JOURNAL": "django:"}) as site:
            for place in ("/plain", "/decorated", "/rest", "/set", "/function"):
                assert site.buy(place).text == CONTENT, place
            assert site.http.head("/plain").status_code == 402
    finally:
        connections.settings["default"]["ATOMIC_REQUESTS"] = False


def test_a_class_s_own_checks_come_before_the_price_of_a_method(serve: Serve) -> None:
    class Closed(APIView):
        authentication_classes = ()
        permission_classes = (IsAuthenticated,)

        @SOLD
        def get(self, request: Request) -> HttpResponse:
            return HttpResponse(CONTENT)

    with serve(path("closed", Closed.as_view())) as site:
        assert site.ask("/closed").status_code == 403


@pytest.mark.parametrize("atomic", [False, True])
def test_a_login_around_a_method_s_price_comes_first_with_and_without_transactions(
    serve: Serve, atomic: bool
) -> None:
    class Mixed(LoginRequiredMixin, View):
        @SOLD
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    class Decorated(View):
        @method_decorator(login_required)
        @SOLD
        def get(self, request: HttpRequest) -> HttpResponse:
            return content(request)

    connections.settings["default"]["ATOMIC_REQUESTS"] = atomic
    try:
        with serve(path("mixed", Mixed.as_view()), path("decorated", Decorated.as_view())) as site:
            assert [site.ask(place).status_code for place in ("/mixed", "/decorated")] == [302, 302]
    finally:
        connections.settings["default"]["ATOMIC_REQUESTS"] = False


# Whoever leaves


def test_what_is_kept_open_for_a_payer_who_left_is_closed() -> None:
    given = list[Chunks]()

    @SOLD
    def view(_request: HttpRequest) -> StreamingHttpResponse:
        time.sleep(0.4)
        given.append(Chunks(b"paid content"))
        return StreamingHttpResponse(given[-1])

    with serving_site("asgi", path("stream", view)) as site:
        proof = Wallet().pay(site.ask("/stream").headers["payment-required"])
        with socket.create_connection((site.http.base_url.host, int(site.http.base_url.port or 0))) as line:
            line.sendall(f"GET /stream HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: {proof}\r\n\r\n".encode())
            time.sleep(0.15)
        assert eventually(lambda: site.statuses == ["succeeded"])
        assert eventually(lambda: bool(given) and given[0].closed == 1)
        assert eventually(lambda: site.ask("/stream", proof).text == CONTENT)
        assert len(given) == 1


class Thread:
    """A middleware that only blocks: under ASGI what is below it is awaited from a thread."""

    sync_capable, async_capable = True, False

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)


@pytest.mark.parametrize("kind", ["memory", "default", "postgres", "mariadb"])
def test_a_payer_leaves_below_a_middleware_that_blocks(kind: str) -> None:
    if kind in databases.ENGINES:
        databases.add(kind)
    journal = "memory:" if kind == "memory" else f"django:{kind}"
    runs = list[str]()

    @SOLD
    def view(_request: HttpRequest) -> HttpResponse:
        time.sleep(0.4)
        runs.append("ran")
        return HttpResponse(CONTENT)

    outside = [f"{__name__}.Thread", *MIDDLEWARE]
    routes = [path("slow", view)]
    with serving_site("asgi", *routes, faregate={"JOURNAL": journal}, MIDDLEWARE=outside) as site:
        proof = Wallet().pay(site.ask("/slow").headers["payment-required"])
        with socket.create_connection((site.http.base_url.host, int(site.http.base_url.port or 0))) as line:
            line.sendall(f"GET /slow HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: {proof}\r\n\r\n".encode())
            time.sleep(0.15)
        assert eventually(lambda: site.statuses == ["succeeded"])
        # The service knows of the settlement before the journal does: until then the answer is 409.
        assert eventually(lambda: site.ask("/slow", proof).text == CONTENT)
        assert runs == ["ran"]


# Settings


def test_an_address_that_the_server_did_not_say_is_not_made_up() -> None:
    nowhere = {"type": "http", "method": "GET", "path": "/paid", "query_string": b"", "headers": []}

    async def asked(scope: dict[str, Any]) -> int:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.sleep(60)

        await get_asgi_application()(scope, receive, send)
        return int(said[0]["status"])

    settings: Any = {"FAREGATE": {"BASE_URL": "emulator:"}, "ROOT_URLCONF": (path("paid", SOLD(content)),)}
    with override_settings(MIDDLEWARE=MIDDLEWARE, **settings):
        assert asyncio.run(asked({**nowhere, "client": ("192.0.2.1", 1), "server": ("127.0.0.1", 80)})) == 402
        assert asyncio.run(asked({**nowhere, "client": ("192.0.2.1", 1), "server": None})) == 502


def test_the_environment_may_name_django_s_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_JOURNAL", "django:")
    with override_settings(FAREGATE={"BASE_URL": "emulator:"}):
        assert isinstance(conf.get_config().paywall.journal, PersistentJournal)


class Own(PaywallMiddleware):
    """A seller's own."""


@pytest.mark.parametrize("name", ["faregate.django.middleware.PaywallMiddleware", f"{__name__}.Own"])
def test_the_middleware_is_known_by_what_it_is(name: str) -> None:
    with override_settings(FAREGATE={"BASE_URL": "emulator:"}, MIDDLEWARE=[name], ROOT_URLCONF=()):
        assert [one.id for one in checks.run_checks() if str(one.id).startswith("faregate.E001")] == []
