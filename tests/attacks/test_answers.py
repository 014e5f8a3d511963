"""Whatever answers in place of a paid handler: middleware at every place, files, and what is said of them."""

import json
import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, ClassVar, cast

import flask
import pytest
from fastapi import Depends, FastAPI
from flask.views import MethodView
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

import faregate.fastapi
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.flask import Faregate
from faregate.paywall import Paywall
from faregate.routes.frameworks import inspect_app
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall
from tests.attacks.trial import REQUEST, SOLD, START, Make, run_trial
from tests.support.preloaded import run_preloaded

ANSWERED = "something in front of it answered without a payment"
OUTSIDE = "is outside PaywallMiddleware. If it answers by itself, from a cache or from files"


class Cache:
    """Keeps whatever succeeded and answers with it. Some say nothing of what they keep: `polite` ones ask."""

    polite = False
    copies = False

    def __init__(self, app: Any) -> None:
        self.app = app
        self.kept: dict[str, list[Any]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self.copies:
            scope = dict(scope)
        seen: list[Any] = []

        async def keep(message: Any) -> None:
            seen.append(message)
            await send(message)

        for message in self.kept.get(scope["path"], ()):
            await send(message)
        if scope["path"] not in self.kept:
            await self.app(scope, receive, keep)
            if seen and seen[0]["status"] == 200 and not (self.polite and b"no-store" in str(seen).encode()):
                self.kept[scope["path"]] = seen


class CopyingCache(Cache):
    copies = True


class CacheOfNames(Cache):
    """Names what it keeps as routers name what they have."""

    routes: ClassVar[Any] = ["/sold"]


class CacheOfObjects(Cache):
    routes: ClassVar[Any] = (object(),)


class CacheOfNothing(Cache):
    routes: ClassVar[Any] = ()


class CacheOfPatterns(Cache):
    routes: ClassVar[Any] = {"/sold": 60}


class PoliteCache(Cache):
    polite = True


class Revalidating(Cache):
    """Answers 304 where it knows the answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") in self.kept:
            headers = [(b"x-kept", str(self.kept[scope["path"]]).encode("latin-1", "replace"))]
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await super().__call__(scope, receive, send)


def endpoint(content: Content) -> Any:
    @paid("daily_report")
    async def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"))

    return report


def front(paywall: Paywall, **options: Any) -> Middleware:
    return Middleware(PaywallMiddleware, paywall=paywall, **options)


def on_a_route(cache: Any, paywall: Paywall, content: Content) -> Any:
    route = Route("/sold", endpoint(content), middleware=[Middleware(cache)])
    return Starlette(routes=[route], middleware=[front(paywall)])


def on_a_mount(cache: Any, paywall: Paywall, content: Content) -> Any:
    mount = Mount("", routes=[Route("/sold", endpoint(content))], middleware=[Middleware(cache)])
    return Starlette(routes=[mount], middleware=[front(paywall)])


def on_a_router(cache: Any, paywall: Paywall, content: Content) -> Any:
    router = Router([Route("/sold", endpoint(content))], middleware=[Middleware(cache)])
    return Starlette(routes=[Mount("", app=router)], middleware=[front(paywall)])


def inside(cache: Any, paywall: Paywall, content: Content) -> Any:
    routes = [Route("/sold", endpoint(content))]
    return Starlette(routes=routes, middleware=[front(paywall), Middleware(cache)])


def inside_of_fastapi(cache: Any, paywall: Paywall, content: Content) -> Any:
    app = FastAPI(openapi_url=None)
    offer = faregate.fastapi.paid("daily_report")
    app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(offer)])
    app.add_middleware(cache)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    return app


def around_a_subapplication(cache: Any, paywall: Paywall, content: Content) -> Any:
    inner = Starlette(routes=[Route("/sold", endpoint(content))], middleware=[Middleware(cache)])
    return Starlette(routes=[Mount("", app=inner)], middleware=[front(paywall)])


def behind_the_asgi_middleware(cache: Any, paywall: Paywall, content: Content) -> Any:
    return ASGIMiddleware(cache(Starlette(routes=[Route("/sold", endpoint(content))])), paywall)


def in_a_host_of_an_inner_paywall(cache: Any, paywall: Paywall, content: Content) -> Any:
    inner = Starlette(
        routes=[Route("/sold", endpoint(content))], middleware=[front(paywall), Middleware(cache)]
    )
    return Starlette(routes=[Mount("", app=inner)], middleware=[front(paywall)])


def behind_the_default(cache: Any, paywall: Paywall, content: Content) -> Any:
    app = Starlette(middleware=[front(paywall)])
    app.router.default = cache(Starlette(routes=[Route("/sold", endpoint(content))]))
    return app


INSIDE: list[Callable[..., Any]] = [
    behind_the_default,
    on_a_route,
    on_a_mount,
    on_a_router,
    inside,
    inside_of_fastapi,
    around_a_subapplication,
    behind_the_asgi_middleware,
    in_a_host_of_an_inner_paywall,
]


class HidingCache(Cache):
    """Keeps its application under another name."""

    def __init__(self, app: Any) -> None:
        self._inner = Cache(app)
        self.kept = self._inner.kept

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._inner(scope, receive, send)


def make_closure(app: Any) -> Any:
    """A cache written as a function, as Starlette's documentation writes middleware."""
    cache = Cache(app)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await cache(scope, receive, send)

    return run


def make_partial(app: Any) -> Any:
    return partial(_run_cache, Cache(app))


async def _run_cache(cache: Cache, scope: Any, receive: Any, send: Any) -> None:
    await cache(scope, receive, send)


class ListingCache(HidingCache):
    """Keeps its application in a list."""

    def __init__(self, app: Any) -> None:
        self.layers = [Cache(app)]
        self.kept = self.layers[0].kept

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.layers[0](scope, receive, send)


class DecoyCache(HidingCache):
    """Has something else under the usual name."""

    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.app = print


NAMING = (
    HidingCache,
    ListingCache,
    DecoyCache,
    make_closure,
    make_partial,
    CacheOfNames,
    CacheOfObjects,
    CacheOfNothing,
    CacheOfPatterns,
)


@pytest.mark.parametrize("cache", [Cache, CopyingCache, Revalidating, *NAMING])
@pytest.mark.parametrize("place", INSIDE)
def test_a_middleware_inside_gives_nothing_away(place: Callable[..., Any], cache: Any) -> None:
    trial = run_trial(lambda paywall, content: place(cache, paywall, content))
    figures.count("middleware that answers, inside", trial.leaks, trial.tries)
    assert trial.leaks == []
    assert (trial.outcome, ANSWERED in trial.said, trial.sales) == (REQUEST, True, 1), trial


class Methods(HTTPEndpoint):
    """Sells one of its methods."""

    content: Content

    @paid("daily_report")
    async def get(self, request: Request) -> Response:
        return PlainTextResponse(self.content.mark("body"))


@pytest.mark.parametrize("kind", ["function", "class", "fastapi", "flask"])
def test_a_cache_that_ignores_the_method_gives_nothing_away(kind: str) -> None:
    """It answers for any method with what a payer got, also for one that the route does not take."""
    content, paywall = Content(), make_paywall()
    if kind == "flask":
        ask = _flask_client(paywall, content)
    elif kind == "fastapi":
        ask = TestClient(inside_of_fastapi(Cache, paywall, content), raise_server_exceptions=False).request
    else:
        handler: Any = endpoint(content)
        if kind == "class":
            handler = type("Sold", (Methods,), {"content": content})
        routes, layers = [Route("/sold", handler)], [front(paywall), Middleware(Cache)]
        app = Starlette(routes=routes, middleware=layers)
        ask = TestClient(app, raise_server_exceptions=False).request
    unpaid = ask("GET", "/sold")
    proof = Wallet().pay(unpaid.headers["payment-required"])
    bought = ask("GET", "/sold", headers={"PAYMENT-SIGNATURE": proof})
    assert content.mark("body") in bought.text
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "BREW"):
        answer = ask(method, "/sold")
        loot = [str(answer.headers).encode(), answer.text.encode()]
        figures.count("middleware that answers, inside", content.found_in(loot))
        assert not content.found_in(loot), method
        assert answer.status_code in (204, 500, 502), method


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("status", [200, 204, 206, 302, 304])
def test_a_flask_cache_of_headers_gives_nothing_away(method: str, status: int) -> None:
    """What it keeps of a redirect to a signed link has no body, as Flask's own answer to OPTIONS has none."""
    content, extension, app = Content(), Faregate(), flask.Flask(__name__)
    extension.init_app(app, make_paywall())
    link = {"Location": f"https://cdn.example/{content.mark('location')}", "X-Result": content.mark("header")}
    app.before_request(lambda: flask.Response(b"", status, link))
    app.add_url_rule("/sold", view_func=extension.paid("daily_report")(lambda: content.mark("body")))
    answer = app.test_client().open("/sold", method=method)
    loot = str(answer.headers).encode()
    figures.count("middleware that answers, inside", content.found_in([loot]))
    assert not content.found_in([loot])


def test_a_free_options_method_beside_a_paid_one_answers_in_flask() -> None:
    """It is a view of its own, which the seller did not sell."""
    extension, app = Faregate(), flask.Flask(__name__)
    extension.init_app(app, make_paywall())

    class Report(MethodView):
        @extension.paid("daily_report")
        def get(self) -> str:
            raise AssertionError("nobody has paid")

        def options(self) -> flask.Response:
            return flask.Response("how to ask", 200, {"X-Own": "1"})

    app.add_url_rule("/sold", view_func=Report.as_view("report"))
    answer = app.test_client().options("/sold")
    assert (answer.status_code, answer.text, answer.headers["X-Own"]) == (200, "how to ask", "1")


def _flask_client(paywall: Paywall, content: Content) -> Any:
    app, kept = flask.Flask(__name__), dict[str, bytes]()
    extension = Faregate()
    extension.init_app(app, paywall)
    app.before_request(lambda: kept.get(flask.request.path))

    @app.after_request
    def keep(response: flask.Response) -> flask.Response:
        if response.status_code == 200:
            kept[flask.request.path] = response.get_data()
        return response

    app.add_url_rule("/sold", view_func=extension.paid("daily_report")(lambda: content.mark("body")))
    client = app.test_client()
    return lambda method, url, headers=None: client.open(url, method=method, headers=headers)


@pytest.mark.parametrize("place", INSIDE)
def test_a_cache_inside_that_asks_leaves_what_is_sold_alone(place: Callable[..., Any]) -> None:
    """It is told before anything of ours has seen the response."""
    trial = run_trial(lambda paywall, content: place(PoliteCache, paywall, content))
    figures.count("middleware that answers, inside", trial.leaks, trial.tries)
    assert (trial.leaks, trial.outcome) == ([], SOLD)


@pytest.mark.parametrize("cache", [Cache, CopyingCache, PoliteCache, Revalidating])
def test_below_a_prefix_that_is_sold_nobody_answers_unpaid(cache: Any) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        async def report(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

        layers = [front(paywall, offers={"/sold": "daily_report"}), Middleware(cache)]
        return Starlette(routes=[Route("/sold", report)], middleware=layers)

    trial = run_trial(make)
    figures.count("middleware that answers, inside", trial.leaks, trial.tries)
    assert trial.leaks == []


def test_files_below_a_prefix_that_is_sold_are_sold(tmp_path: Path) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        (tmp_path / "sold").write_text(content.mark("body"))
        files = Mount("", app=StaticFiles(directory=tmp_path))
        return Starlette(routes=[files], middleware=[front(paywall, offers={"/sold": "daily_report"})])

    trial = run_trial(make)
    figures.count("middleware that answers, inside", trial.leaks, trial.tries)
    assert (trial.leaks, trial.outcome) == ([], SOLD)


# What may pass without a payment


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 429, 500, 503])
def test_middleware_inside_may_refuse(status: int) -> None:
    """A limit, a check of a key: an error is nothing that is for sale."""

    async def refuse(request: Request, call_next: Any) -> Response:
        return Response(status_code=status, headers={"x-refused": "yes"})

    layers = [front(make_paywall()), Middleware(BaseHTTPMiddleware, dispatch=refuse)]
    client = TestClient(Starlette(routes=[Route("/sold", endpoint(Content()))], middleware=layers))
    answer = client.get("/sold", follow_redirects=False)
    assert (answer.status_code, answer.headers["x-refused"]) == (status, "yes")


def redirecting(target: str) -> Any:
    async def redirect(request: Request, call_next: Any) -> Response:
        return RedirectResponse(target)

    return Middleware(BaseHTTPMiddleware, dispatch=redirect)


@pytest.mark.parametrize("place", ["application", "mount"])
def test_middleware_inside_may_redirect_to_a_page_only(place: str) -> None:
    """It may be a cache that keeps a redirect that was sold."""
    content = Content()
    for target, status in ((f"/files/{content.mark('header')}", 502), ("/login", 307)):
        answer = ask_redirecting(place, content, target)
        figures.count("middleware that answers, inside", content.found_in([str(answer.headers).encode()]))
        assert (answer.status_code, answer.headers.get("location")) == (
            status,
            target if status == 307 else None,
        )


def ask_redirecting(place: str, content: Content, target: str) -> Any:
    inside = redirecting(target)
    routes: list[Any] = [
        Route("/login", lambda _request: Response()),
        Route("/files/{name}", lambda _request: Response()),
        Route("/sold", endpoint(content)),
    ]
    if place == "mount":
        routes, layers = [Mount("", routes=routes, middleware=[inside])], [front(make_paywall())]
    else:
        layers = [front(make_paywall()), inside]
    client = TestClient(Starlette(routes=routes, middleware=layers), raise_server_exceptions=False)
    return client.get("/sold", follow_redirects=False)


def test_a_login_on_the_route_may_redirect() -> None:
    def login(function: Any) -> Any:
        async def check(request: Request) -> Response:
            if "user" in request.query_params:
                return cast(Response, await function(request))
            return RedirectResponse("/login")

        return wraps(function)(check)

    routes = [Route("/sold", login(endpoint(Content()))), Route("/login", lambda _request: Response())]
    client = TestClient(Starlette(routes=routes, middleware=[front(make_paywall())]))
    assert client.get("/sold", follow_redirects=False).headers["location"] == "/login"
    assert client.get("/sold?user=1").status_code == 402


def test_options_may_be_answered_by_anybody() -> None:
    async def allow(request: Request, call_next: Any) -> Response:
        return Response(status_code=204, headers={"allow": "GET"})

    layers = [front(make_paywall()), Middleware(BaseHTTPMiddleware, dispatch=allow)]
    client = TestClient(Starlette(routes=[Route("/sold", endpoint(Content()))], middleware=layers))
    assert client.options("/sold").headers["allow"] == "GET"


def test_a_route_that_costs_nothing_may_be_cached() -> None:
    async def free(request: Request) -> Response:
        return PlainTextResponse("free")

    app = Starlette(
        routes=[Route("/free", free), Route("/sold", endpoint(Content()))],
        middleware=[front(make_paywall()), Middleware(Cache)],
    )
    client = TestClient(app)
    assert [client.get("/free").text for _ in range(3)] == ["free"] * 3


def test_a_handler_that_only_knows_of_a_paid_one_is_free() -> None:
    """It was defined beside it, and closes over it by its name."""

    def make_app() -> Any:
        @paid("daily_report")
        async def report(request: Request) -> Response:
            return PlainTextResponse("paid")

        async def index(request: Request) -> Response:
            return PlainTextResponse(f"See {report.__name__}.")

        def deeper() -> Any:
            async def about(request: Request) -> Response:
                return PlainTextResponse(f"About {report.__name__}.")

            return about

        class Views:
            def __init__(self) -> None:
                self.report = report

            async def home(self, request: Request) -> Response:
                return PlainTextResponse("home")

        routes = [Route("/report", report), Route("/", index), Route("/about", deeper())]
        return Starlette(routes=[*routes, Route("/home", Views().home)], middleware=[front(make_paywall())])

    client = TestClient(make_app())
    assert [client.get(path).status_code for path in ("/", "/about", "/home", "/report")] == [
        200,
        200,
        200,
        402,
    ]


class Proxy:
    """Of something that there is only during a request: whoever asks it for anything gets an error."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")

    def __call__(self) -> None: ...


def test_a_handler_that_closes_over_a_proxy_is_looked_at_without_asking_it() -> None:
    proxy = Proxy()

    async def free(request: Request, other: Any = proxy) -> Response:
        return PlainTextResponse(f"free {type(proxy).__name__}")

    client = TestClient(Starlette(routes=[Route("/", free)], middleware=[front(make_paywall())]))
    assert client.get("/").text == "free Proxy"


def test_a_price_that_a_test_overrides_is_not_asked_for() -> None:
    offer = faregate.fastapi.paid("daily_report")
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app.add_api_route("/sold", lambda: "content", dependencies=[Depends(offer)])
    app.dependency_overrides[offer] = lambda: faregate.fastapi.Payment(None)
    assert TestClient(app).get("/sold").json() == "content"
    app.dependency_overrides.clear()
    assert TestClient(app).get("/sold").status_code == 402


# Outside, where nothing can be seen of a request


def outside(cache: Any) -> Make:
    def make(paywall: Paywall, content: Content) -> Any:
        routes = [Route("/sold", endpoint(content))]
        return Starlette(routes=routes, middleware=[Middleware(cache), front(paywall)])

    return make


class ServeStaticFiles(Cache): ...


class IdempotencyHeaderMiddleware(PoliteCache):
    """Stands for packages that keep the answer to an `Idempotency-Key`, also a 402 and a 202."""


class NoCacheMiddleware(PoliteCache):
    """Only says something of caches."""


async def cache_everything(request: Request, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize(
    "cache", [Cache, CopyingCache, IdempotencyHeaderMiddleware, PoliteCache, ServeStaticFiles]
)
def test_a_cache_outside_fails_the_start(cache: Any) -> None:
    trial = run_trial(outside(cache))
    figures.count("middleware that answers, outside", trial.leaks)
    named = OUTSIDE in trial.said and cache.__name__ in trial.said
    assert (trial.leaks, trial.outcome, named) == ([], START, True)


def test_a_function_that_is_called_so_fails_the_start() -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        app.middleware("http")(cache_everything)
        return app

    trial = run_trial(make)
    assert (trial.outcome, OUTSIDE in trial.said, "cache_everything" in trial.said) == (START, True, True)


def around_a_mount(paywall: Paywall, content: Content) -> Any:
    """The cache is the application's, and the paywall stands around a part of it."""
    mount = Mount("", routes=[Route("/sold", endpoint(content))], middleware=[front(paywall)])
    return Starlette(routes=[mount], middleware=[Middleware(Cache)])


def around_a_router(paywall: Paywall, content: Content) -> Any:
    layers = [Middleware(Cache), front(paywall)]
    return Starlette(routes=[Mount("", app=Router([Route("/sold", endpoint(content))], middleware=layers))])


def around_a_route(paywall: Paywall, content: Content) -> Any:
    layers = [Middleware(Cache), front(paywall)]
    return Starlette(routes=[Route("/sold", endpoint(content), middleware=layers)])


@pytest.mark.parametrize("make", [around_a_mount, around_a_router, around_a_route])
def test_a_cache_outside_a_paywall_of_a_part_fails_its_first_request(make: Any) -> None:
    trial = run_trial(make)
    figures.count("middleware that answers, outside", trial.leaks, trial.tries)
    assert (trial.leaks, trial.outcome, OUTSIDE in trial.said) == ([], REQUEST, True)


def test_a_cache_around_a_subapplication_with_its_own_paywall_is_reported_by_the_commands() -> None:
    """The sub-application does not know where it is mounted."""
    inner = Starlette(routes=[Route("/sold", endpoint(Content()))], middleware=[front(make_paywall())])
    app = Starlette(routes=[Mount("", app=inner)], middleware=[Middleware(Cache)])
    assert any(OUTSIDE in fault for fault in inspect_app(app).problems)


def test_one_that_only_speaks_of_caches_may_be_outside_and_so_may_one_that_is_allowed() -> None:
    assert run_trial(outside(NoCacheMiddleware)).outcome == SOLD

    def make(paywall: Paywall, content: Content) -> Any:
        routes = [Route("/sold", endpoint(content))]
        allowed = front(paywall, allow_outside=[PoliteCache])
        return Starlette(routes=routes, middleware=[Middleware(PoliteCache), allowed])

    assert run_trial(make).outcome == SOLD


def test_the_commands_report_what_is_wrapped_around_any_application() -> None:
    content = Content()
    wrapped = Cache(PaywallMiddleware(Starlette(routes=[Route("/sold", endpoint(content))]), make_paywall()))
    assert any(OUTSIDE in fault for fault in inspect_app(wrapped).problems)
    within = PaywallMiddleware(Cache(Starlette(routes=[Route("/sold", endpoint(content))])), make_paywall())
    assert inspect_app(within).problems == ()
    allowed = PaywallMiddleware(Starlette(), make_paywall(), allow_outside=[Cache])
    assert inspect_app(Cache(allowed)).problems == ()


SHOP = """
from fastapi import Depends, FastAPI
from faregate.fastapi import PaywallMiddleware, paid


class CacheMiddleware:
    def __init__(self, app):
        self.app = app


app = FastAPI(openapi_url=None)
app.add_middleware(PaywallMiddleware)
app.add_middleware(CacheMiddleware)


@app.get("/sold", dependencies=[Depends(paid)])
async def sold() -> str:
    return "content"
"""


@pytest.mark.parametrize("command", ["routes", "check"])
def test_the_commands_end_with_1_and_the_sentences(tmp_path: Path, command: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    done = run_preloaded(["-m", "faregate", command, "--json", "shop:app"], dict(os.environ), tmp_path)
    faults = json.loads(done.stdout)["faults"]
    assert done.returncode == 1
    parts = (OUTSIDE, "sells nothing. Write Depends")
    assert [any(part in fault for fault in faults) for part in parts] == [True, True]


def test_a_start_that_failed_fails_every_request_too() -> None:
    app = outside(Cache)(make_paywall(), Content())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="outside PaywallMiddleware"):
            TestClient(app).get("/sold")
