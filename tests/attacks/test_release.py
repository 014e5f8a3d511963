"""What may leave unpaid (`faregate.core.withholding`): one table of attacks for every adapter.

A handler leaves a mark in its location, its headers and its body. A stranger may get it only with a payment
that is proven, whatever the status, and wherever the answer comes from.
"""

import contextvars
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import flask
import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import Response as FastAPIResponse
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import faregate.fastapi
import faregate.starlette
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.asgi import require_payment
from faregate.emulator import Wallet
from faregate.flask import Faregate
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware as WSGIMiddleware
from faregate.wsgi import require_payment as require_payment_wsgi
from tests import django_site
from tests.adapters.django_views import HIDDEN, PAYWALL, project
from tests.attacks.content import RESPONSE, Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall, on_uvicorn
from tests.servers.http import serving_wsgi

django_site.ready()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path as django_path  # noqa: E402

import faregate.django  # noqa: E402

SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="")
"""Set by handlers, and read by what stands outside the paywall."""
NOT_ERRORS = (200, 201, 204, 206, 226, 300, 301, 302, 303, 304, 305, 307, 308, 399)
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass
class Work:
    """What the handler at `/sold/` answers, and how it is sold."""

    status: int = 200
    content: Content = field(default_factory=Content)
    options: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    """How often the application calls the paid function."""
    memo: str = ""
    """What a memo above the price keeps: the `object`, its `parts`, or its `location`."""
    location: str = "https://cdn.example/sold?X-Amz-Signature={}"
    """Where a redirect leads, with the mark."""
    seen: set[str] = field(default_factory=set)
    """The names of the headers that the handler was given."""
    forget: bool = False
    """Whether the handler makes its price while it runs."""

    @property
    def headers(self) -> dict[str, str]:
        mark = self.content.mark("header")
        return {"X-Mark": mark, "Location": self.location.format(mark)}

    def do(self, request_headers: Iterable[str]) -> tuple[int, dict[str, str], str]:
        self.content.runs += 1
        self.seen = {name.lower().removeprefix("http_").replace("_", "-") for name in request_headers}
        SEEN.set(self.content.mark("state"))
        body = "" if self.status in (204, 304) else self.content.mark("body")
        return self.status, self.headers, body


def memo(function: Any, work: Work, build: Any) -> Any:
    """Keep the result of a function, and answer with it. `build` makes a response of its parts."""
    kept: list[Any] = []

    @wraps(function)
    def remember(*args: Any, **kwargs: Any) -> Any:
        return recall(work, build, kept) if kept else keep(function(*args, **kwargs), kept)

    return remember


def amemo(function: Any, work: Work, build: Any) -> Any:
    kept: list[Any] = []

    @wraps(function)
    async def remember(*args: Any, **kwargs: Any) -> Any:
        return recall(work, build, kept) if kept else keep(await function(*args, **kwargs), kept)

    return remember


def keep(answer: Any, kept: list[Any]) -> Any:
    if isinstance(answer, tuple) or "X-Mark" in answer.headers:
        kept.append(answer)
    return answer


def recall(work: Work, build: Any, kept: list[Any]) -> Any:
    if work.memo == "parts":
        return build(work.content.mark("body"), work.status, work.headers)
    if work.memo == "location":
        return build("", work.status, {"Location": work.headers["Location"]})
    return kept[0]


Serve = Callable[[Work, Paywall, bool], AbstractContextManager[str]]
"""Serve this work: sold by its handler, or by its path prefix."""


def serve_starlette(work: Work, paywall: Paywall, is_prefix: bool) -> AbstractContextManager[str]:
    async def report(request: Request) -> Response:
        if work.forget:
            faregate.starlette.paid("daily_report")
        status, headers, body = work.do(request.headers)
        return Response(body, status, headers)

    price = faregate.starlette.paid("daily_report", **work.options)
    endpoint: Any = report if is_prefix or work.forget else price(report)
    if work.memo:
        endpoint = amemo(endpoint, work, Response)
    if work.calls > 1:
        sold = endpoint

        async def calling(request: Request) -> Any:
            return [await sold(request) for _ in range(work.calls)][-1]

        endpoint = calling
    offers = {"/sold": offer("daily_report", **work.options)} if is_prefix else None
    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall, offers=offers)
    routes = [Route("/sold/", endpoint), Route("/login", free), Route("/files/{name}", free)]
    return on_uvicorn(outside(Starlette(routes=routes, middleware=[front])))


async def free(request: Request) -> Response:
    return Response()


def outside(app: Any) -> Any:
    """Middleware that puts a context variable into a header of each response, whoever answers."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"x-seen", SEEN.get().encode())]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, tell)

    return run


def outside_wsgi(app: Any) -> Any:
    def run(environ: Any, start_response: Any) -> Any:
        def start(status: str, headers: Any, *error: Any) -> Any:
            return start_response(status, [*headers, ("X-Seen", SEEN.get())], *error)

        SEEN.set("")
        return app(environ, start)

    return run


def serve_fastapi(work: Work, paywall: Paywall, is_prefix: bool) -> AbstractContextManager[str]:
    async def report(request: Request) -> FastAPIResponse:
        if work.forget:
            faregate.fastapi.paid("daily_report")
        status, headers, body = work.do(request.headers)
        return FastAPIResponse(body, status, headers)

    class Remembering(APIRoute):
        def get_route_handler(self) -> Any:
            return amemo(super().get_route_handler(), work, FastAPIResponse)

    app = FastAPI(openapi_url=None)
    app.add_route("/login", free)
    app.add_route("/files/{name}", free)
    if work.memo:
        app.router.route_class = Remembering
    price = Depends(faregate.fastapi.paid("daily_report", **work.options))
    prices = [] if is_prefix or work.forget else [price]
    app.add_api_route("/sold/", report, dependencies=prices)
    offers = {"/sold": offer("daily_report", **work.options)} if is_prefix else None
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall, offers=offers)
    return on_uvicorn(outside(app))


def serve_asgi(work: Work, paywall: Paywall, is_prefix: bool) -> AbstractContextManager[str]:
    sold = offer("daily_report", **work.options)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        for _ in range(0 if is_prefix else work.calls):
            asked = require_payment(scope, sold)
            if work.forget:
                asked.close()
            else:
                await asked
        status, headers, body = work.do(name.decode() for name, _ in scope["headers"])
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body.encode()})

    offers = {"/sold": sold} if is_prefix else None
    return on_uvicorn(outside(ASGIMiddleware(app, paywall, offers=offers)))


def serve_flask(work: Work, paywall: Paywall, is_prefix: bool) -> AbstractContextManager[str]:
    app = flask.Flask(__name__)
    if is_prefix:
        app.config["FAREGATE_OFFERS"] = {"/sold": offer("daily_report", **work.options)}
    front = Faregate()
    front.init_app(app, paywall)

    def report() -> Any:
        if work.forget:
            front.paid("daily_report")(lambda: "")
        status, headers, body = work.do(flask.request.headers.keys())
        return body, status, headers

    view: Any = report if is_prefix or work.forget else front.paid("daily_report", **work.options)(report)
    if work.memo:
        view = memo(view, work, lambda *parts: parts)
    if work.calls > 1:
        sold = view
        view = wraps(report)(lambda: [sold() for _ in range(work.calls)][-1])
    app.add_url_rule("/sold/", view_func=view, endpoint="report")
    app.add_url_rule("/login", "login", lambda: "")
    app.add_url_rule("/files/<name>", "file", lambda name: "")
    app.wsgi_app = outside_wsgi(app.wsgi_app)  # type: ignore[method-assign]
    return serving_wsgi(app)


def serve_wsgi(work: Work, paywall: Paywall, is_prefix: bool) -> AbstractContextManager[str]:
    sold = offer("daily_report", **work.options)

    def app(environ: Any, start_response: Any) -> Any:
        if work.forget:
            offer("daily_report")
        for _ in range(0 if is_prefix or work.forget else work.calls):
            require_payment_wsgi(environ, sold)
        status, headers, body = work.do(environ)
        start_response(f"{status} Some", list(headers.items()))
        return [body.encode()]

    offers = {"/sold": sold} if is_prefix else None
    return serving_wsgi(outside_wsgi(WSGIMiddleware(app, paywall, offers=offers)))


@contextmanager
def serve_django(work: Work, paywall: Paywall, is_prefix: bool) -> Generator[str]:
    def report(request: HttpRequest) -> HttpResponse:
        if work.forget:
            faregate.django.paid("daily_report")
        status, headers, body = work.do(request.headers)
        return HttpResponse(body, status=status, headers=headers)

    price = faregate.django.paid("daily_report", **work.options)
    view: Any = report if is_prefix or work.forget else price(report)
    if work.memo:
        view = memo(
            view, work, lambda body, status, headers: HttpResponse(body, status=status, headers=headers)
        )
    if work.calls > 1:
        sold = view
        view = wraps(report)(lambda request: [sold(request) for _ in range(work.calls)][-1])
    settings = {"OFFERS": {"/sold": offer("daily_report", **work.options)}} if is_prefix else {}
    with (
        project(
            django_path("sold/", view),
            django_path("login", lambda _request: HttpResponse()),
            django_path("files/<name>", lambda _request, name: HttpResponse()),
            FAREGATE=settings,
            MIDDLEWARE=[PAYWALL],
        ),
        serving_wsgi(outside_wsgi(get_wsgi_application())) as url,
    ):
        yield url


SERVE: dict[str, Serve] = {
    "asgi": serve_asgi,
    "fastapi": serve_fastapi,
    "starlette": serve_starlette,
    "flask": serve_flask,
    "wsgi": serve_wsgi,
    "django": serve_django,
}
GUARDED = ("fastapi", "starlette", "flask", "django")
"""Adapters that know the handler of a request."""


@dataclass
class Buyer:
    """A payer, and strangers who pay nothing."""

    work: Work
    http: httpx.Client
    shown: frozenset[str] = frozenset()
    """What may leave with an error of the handler."""
    wallet: Wallet = field(default_factory=Wallet)

    def ask(self, proof: str | None = None, **headers: str) -> httpx.Response:
        if proof is not None:
            headers["PAYMENT-SIGNATURE"] = proof
        answer = self.http.get("/sold/", headers=headers)
        if "payment-response" not in answer.headers:
            loot = [b"\n".join(b"%b: %b" % pair for pair in answer.headers.raw), answer.content]
            leaks = self.work.content.found_in(loot) - self.shown
            figures.count("statuses, redirects and contexts", leaks)
            assert not leaks, (answer.status_code, leaks)
        return answer

    def buy(self, **headers: str) -> httpx.Response:
        unpaid = self.ask()
        assert unpaid.status_code == 402, unpaid.text
        return self.ask(self.wallet.pay(unpaid.headers["payment-required"]), **headers)


@contextmanager
def buying(adapter: str, work: Work, is_prefix: bool = False) -> Generator[Buyer]:
    limits = httpx.Limits(max_keepalive_connections=0)
    with (
        SERVE[adapter](work, make_paywall(), is_prefix) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20, limits=limits) as http,
    ):
        yield Buyer(work, http)


@pytest.mark.parametrize("adapter", SERVE)
def test_a_redirect_of_a_handler_is_its_result(adapter: str) -> None:
    """Also one to the path without its slash at another host, as a signed link has it."""
    with buying(adapter, Work(302)) as buyer:
        answer = buyer.buy()
    assert (answer.status_code, "payment-response" in answer.headers) == (302, True)


@pytest.mark.parametrize("is_prefix", [False, True], ids=["handler", "prefix"])
@pytest.mark.parametrize("adapter", SERVE)
def test_what_is_not_billable_is_withheld(adapter: str, is_prefix: bool) -> None:
    work = Work(options={"billable": {200}})
    with buying(adapter, work, is_prefix) as buyer:
        for work.status in NOT_ERRORS[1:]:
            answer = buyer.buy()
            assert (answer.status_code, answer.json()["code"]) == (500, "not_billable")
            assert "location" not in answer.headers


@pytest.mark.parametrize("adapter", SERVE)
def test_a_redirect_below_a_prefix_may_be_a_login_and_is_not_charged(adapter: str) -> None:
    with buying(adapter, Work(302), is_prefix=True) as buyer:
        answer = buyer.buy()
    assert (answer.status_code, "payment-response" in answer.headers) == (500, False)


@pytest.mark.parametrize("adapter", SERVE)
def test_a_payment_buys_the_whole_result(adapter: str) -> None:
    """Ranges and conditions do not reach the handler, so that it answers with the result."""
    conditions = {
        "Range": "bytes=0-",
        "If-Range": "x",
        "If-Match": "x",
        "If-None-Match": "*",
        "If-Modified-Since": "x",
        "If-Unmodified-Since": "x",
    }
    with buying(adapter, Work()) as buyer:
        answer = buyer.buy(**conditions)
    assert (answer.status_code, answer.text) == (200, buyer.work.content.mark("body"))
    assert "host" in buyer.work.seen
    assert buyer.work.seen.isdisjoint(map(str.lower, conditions))


@pytest.mark.parametrize("memo", ["object", "parts"])
@pytest.mark.parametrize("status", [200, 204, 206, *REDIRECTS, 304, 404, 500])
@pytest.mark.parametrize("adapter", GUARDED)
def test_a_memo_above_the_price_gives_nothing_away(adapter: str, status: int, memo: str) -> None:
    """Also of an error that is sold."""
    work = Work(status, memo=memo, options={"billable": {status}})
    with buying(adapter, work) as buyer:
        assert "payment-response" in buyer.buy().headers
        for _ in range(2):
            assert buyer.ask().status_code >= 500


@pytest.mark.parametrize(
    "location",
    [
        "https://cdn.example/sold?X-Amz-Signature={}",
        "//cdn.example/{}",
        "/files/{}",
        "/login?token={}",
        "/login?{}=/sold/",
        "/login?next=/{}",
        "/login?next=/sold/%3Ftoken={}",
        "/login?next=/sold/&{}",
        "/login#{}",
        "/sold/?token={}",
        "/sold/{}",
    ],
)
@pytest.mark.parametrize("adapter", GUARDED)
def test_a_memo_of_where_a_redirect_leads_gives_nothing_away(adapter: str, location: str) -> None:
    with buying(adapter, Work(302, memo="location", location=location)) as buyer:
        assert "payment-response" in buyer.buy().headers
        for _ in range(2):
            assert buyer.ask().status_code >= 500


@pytest.mark.parametrize(
    "location", ["/login", "/login?next=/sold/", "/login?return_to=%2Fsold%2F%3F", "/sold"]
)
@pytest.mark.parametrize("adapter", GUARDED)
def test_a_login_above_the_price_may_redirect_to_a_page(adapter: str, location: str) -> None:
    """Nothing else of its response leaves: a memo may have made it of a result."""
    with buying(adapter, Work(302, memo="parts", location=location)) as buyer:
        assert "payment-response" in buyer.buy().headers
        answer = buyer.ask()
    assert (answer.status_code, answer.headers["location"]) == (302, location)


class Rewriting:
    """ASGI middleware that gives the router a copy of the scope, with another path."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app({**scope, "path": "/sold/", "raw_path": b"/sold/"}, receive, send)


def rewrite_wsgi(app: Any) -> Any:
    return lambda environ, start: app({**environ, "PATH_INFO": "/sold/"}, start)


def rewrite_django(get_response: Any) -> Any:
    def run(request: HttpRequest) -> Any:
        request.path_info = "/sold/"
        return get_response(request)

    return run


@contextmanager
def rewriting(adapter: str, work: Work) -> Generator[str]:
    """Serve this work with middleware between the paywall and the router that rewrites paths."""
    paywall = make_paywall()
    if adapter == "starlette":

        async def report(request: Request) -> Response:
            return Response(work.do(request.headers)[2])

        front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
        routes = [Route("/sold/", faregate.starlette.paid("daily_report")(report))]
        with on_uvicorn(Starlette(routes=routes, middleware=[front, Middleware(Rewriting)])) as url:
            yield url
    elif adapter == "flask":
        app = flask.Flask(__name__)
        app.wsgi_app = rewrite_wsgi(app.wsgi_app)  # type: ignore[method-assign]
        flask_front = Faregate()
        flask_front.init_app(app, paywall)
        view = flask_front.paid("daily_report")(lambda: work.do({})[2])
        app.add_url_rule("/sold/", view_func=view, endpoint="report")
        with serving_wsgi(app) as url:
            yield url
    else:
        sold = faregate.django.paid("daily_report")(lambda _request: HttpResponse(work.do({})[2]))
        middleware = [HIDDEN, f"{__name__}.rewrite_django"]
        with (
            project(django_path("sold/", sold), MIDDLEWARE=middleware),
            serving_wsgi(get_wsgi_application()) as url,
        ):
            yield url


@pytest.mark.parametrize("adapter", ["starlette", "flask", "django"])
def test_a_path_that_is_rewritten_behind_the_paywall_is_not_sold(adapter: str) -> None:
    """By its own path nothing would find that the handler is sold, if a memo answered in its place."""
    work = Work()
    # The server closes a connection after an error, just when a client would use it again.
    once = httpx.Limits(max_keepalive_connections=0)
    with rewriting(adapter, work) as url, httpx.Client(base_url=url, trust_env=False, limits=once) as http:
        assert http.get("/alias").status_code == 502
        assert http.get("/sold/").status_code == 402
    assert work.content.runs == 0


@pytest.mark.parametrize("adapter", SERVE)
def test_a_price_that_is_made_too_late_withholds_every_status(adapter: str) -> None:
    work = Work(forget=True)
    with buying(adapter, work) as buyer:
        buyer.shown = frozenset(("state",))  # without a payment, a blocking handler shares the context
        for work.status in (*NOT_ERRORS, 404, 500):
            assert buyer.ask().status_code >= 500


@pytest.mark.parametrize("adapter", ["asgi", "starlette", "flask", "wsgi", "django"])
def test_one_payment_is_for_one_call_of_a_paid_function(adapter: str) -> None:
    work = Work(calls=20)
    with buying(adapter, work) as buyer:
        answer = buyer.buy()
    assert (answer.status_code, work.content.runs <= 1) == (500, True)


@pytest.mark.parametrize("adapter", SERVE)
def test_context_variables_of_unpaid_work_stay_inside(adapter: str) -> None:
    with buying(adapter, Work(404)) as buyer:
        buyer.shown = RESPONSE
        assert buyer.buy().status_code == 404
    assert buyer.work.content.runs == 1
