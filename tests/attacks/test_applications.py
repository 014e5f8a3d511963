"""Several applications behind one paywall, whatever leads to them; and a paywall that stands on one route."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import wrapt
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.testclient import TestClient

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.paywall import Paywall
from faregate.routes.frameworks import inspect_app
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall
from tests.attacks.trial import SOLD, run_trial

KIND = "several applications"
Lead = Callable[[Any, Any], Any]
"""Makes one application of a free site and a shop."""


class BodyCache:
    """Keeps the body only, so that no mark is left on what it answers with."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._kept: dict[str, bytes] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen: list[Any] = []

        async def keep(message: Any) -> None:
            seen.append(message)
            await send(message)

        if scope["path"] in self._kept:
            await Response(self._kept[scope["path"]])(scope, receive, send)
            return
        await self.app(scope, receive, keep)
        if seen and seen[0]["status"] == 200:
            self._kept[scope["path"]] = b"".join(message.get("body", b"") for message in seen[1:])


def remember_text(endpoint: Any) -> Any:
    """A memo above the price that keeps the text only."""
    kept: list[bytes] = []

    @wraps(endpoint)
    async def run(request: Request, *others: Any) -> Response:
        if kept:
            return Response(kept[0])
        answer: Response = await endpoint(request, *others)
        if answer.status_code == 200:
            kept.append(bytes(answer.body))
        return answer

    return run


async def free(request: Request) -> Response:
    return PlainTextResponse("free")


def make_site() -> Starlette:
    return Starlette(routes=[Route("/", free), Route("/about", free)])


def make_sold(content: Content) -> Any:
    @paid("daily_report")
    async def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"))

    return report


def make_memo(content: Content) -> Starlette:
    return Starlette(routes=[Route("/sold", remember_text(make_sold(content)))])


def make_cache(content: Content) -> Starlette:
    return Starlette(routes=[Route("/sold", make_sold(content))], middleware=[Middleware(BodyCache)])


def by_host(site: Any, shop: Any) -> Any:
    class Hosts:
        def __init__(self) -> None:
            self.apps = {"www.example": site, "seller.example": shop}

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            host = dict(scope.get("headers", ())).get(b"host", b"www.example").decode()
            await self.apps[host](dict(scope), receive, send)

    return Hosts()


def by_path(a_site: Any, shop: Any) -> Any:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        await (shop if scope.get("path") == "/sold" else a_site)(dict(scope), receive, send)

    return run


def by_path_in_another_order(z_site: Any, shop: Any) -> Any:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        await (shop if scope.get("path") == "/sold" else z_site)(dict(scope), receive, send)

    return run


class Beside:
    """Has its application under the usual name, and a shop beside it."""

    def __init__(self, app: Any, shop: Any) -> None:
        self.app = app
        self.shop = shop

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self.shop if scope.get("path") == "/sold" else self.app)(dict(scope), receive, send)


class Cascade:
    """Asks the second application for what the first does not have."""

    def __init__(self, site: Any, shop: Any) -> None:
        self.apps = [site, shop]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        seen: list[Any] = []

        async def hold(message: Any) -> None:
            seen.append(message)

        await self.apps[0](dict(scope), receive, hold if scope["type"] == "http" else send)
        if seen and seen[0]["status"] == 404:
            await self.apps[1](dict(scope), receive, send)
            return
        for message in seen:
            await send(message)


def declared_as_middleware(site: Any, shop: Any) -> Any:
    site.add_middleware(Beside, shop=shop)
    return site


class Slots:
    __slots__ = ("_shop", "_site")

    def __init__(self, site: Any, shop: Any) -> None:
        self._site = site
        self._shop = shop

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self._shop if scope.get("path") == "/sold" else self._site)(dict(scope), receive, send)


def by_reference(site: Any, shop: Any) -> Any:
    reference = weakref.ref(shop)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        found = reference()
        assert found is not None
        await (found if scope.get("path") == "/sold" else site)(dict(scope), receive, send)

    KEPT[id(run)] = shop
    return run


KEPT: dict[int, Any] = {}


def by_a_route_of_its_own(site: Any, shop: Any) -> Any:
    class Everything(BaseRoute):
        def matches(self, scope: Any) -> Any:
            return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            await shop(dict(scope), receive, send)

    site.router.routes.append(Everything())
    return site


def by_an_endpoint(site: Any, shop: Any) -> Any:
    class HandOn:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await shop(dict(scope), receive, send)

    site.router.routes.append(Route("/{rest:path}", HandOn()))
    return site


@wrapt.decorator
def traced(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def by_an_endpoint_in_a_wrapper(site: Any, shop: Any) -> Any:
    """As the agent of New Relic wraps each endpoint of Starlette."""
    by_an_endpoint(site, shop)
    route = site.router.routes.pop()
    site.router.routes.append(Route(route.path, traced(route.endpoint)))
    return site


LEADS: list[Lead] = [
    by_host,
    by_path,
    by_path_in_another_order,
    Beside,
    Cascade,
    declared_as_middleware,
    Slots,
    by_reference,
    by_a_route_of_its_own,
    by_an_endpoint,
    by_an_endpoint_in_a_wrapper,
]


def behind_asgi(app: Any, paywall: Paywall) -> Any:
    return ASGIMiddleware(app, paywall)


def behind_starlette(app: Any, paywall: Paywall) -> Any:
    front = Middleware(PaywallMiddleware, paywall=paywall)
    return Starlette(routes=[Mount("/", app=app)], middleware=[front])


@pytest.mark.parametrize("make_shop", [make_memo, make_cache])
@pytest.mark.parametrize("front", [behind_asgi, behind_starlette])
@pytest.mark.parametrize("lead", LEADS)
def test_no_copy_leaves_from_one_of_several_applications(lead: Lead, front: Any, make_shop: Any) -> None:
    trial = run_trial(lambda paywall, content: front(lead(make_site(), make_shop(content)), paywall))
    figures.count(KIND, trial.leaks, trial.tries)
    assert (trial.leaks, trial.sales) == ([], 1)


@pytest.mark.parametrize("front", [behind_asgi, behind_starlette])
@pytest.mark.parametrize("lead", LEADS)
def test_a_price_above_the_route_gives_nothing_away(lead: Lead, front: Any) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        async def report(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

        paid("daily_report")(report)
        return front(lead(make_site(), Starlette(routes=[Route("/sold", report)])), paywall)

    trial = run_trial(make)
    figures.count(KIND, trial.leaks, trial.tries)
    assert trial.leaks == []


@pytest.mark.parametrize("front", [behind_asgi, behind_starlette])
@pytest.mark.parametrize("lead", LEADS)
def test_several_applications_sell_and_give_as_one_does(lead: Lead, front: Any) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        return front(lead(make_site(), Starlette(routes=[Route("/sold", make_sold(content))])), paywall)

    assert run_trial(make).outcome == SOLD
    content = Content()
    client = TestClient(make(make_paywall(), content), "http://www.example")
    assert (client.get("/about").text, client.get("/").text) == ("free", "free")
    paths = [row.path for row in inspect_app(make(make_paywall(), content)).routes if row.access == "paid"]
    assert paths == ["/sold"]


def test_a_free_page_of_one_application_shadows_no_price_of_another() -> None:
    site = Starlette(routes=[Route("/{rest:path}", free)])
    shop = Starlette(routes=[Route("/sold", make_sold(Content()))])
    assert inspect_app(behind_asgi(by_host(site, shop), make_paywall())).mistakes == ()
    shop = Starlette(routes=[Route("/sold", free), Route("/sold", make_sold(Content()))])
    [mistake] = inspect_app(behind_asgi(by_host(site, shop), make_paywall())).mistakes
    assert "free (/sold) comes first" in mistake


def test_an_application_that_its_own_handlers_know_is_listed_and_asked_once() -> None:
    """As in a function that makes it: middleware and endpoints close over it, and over what is mounted."""
    inner = Starlette(routes=[Route("/about", free), Route("/sold", make_sold(Content()))])
    app = Starlette(routes=[Mount("/inner", app=inner)])

    async def dispatch(request: Request, call_next: Any) -> Response:
        assert app is not inner
        return await call_next(request)  # type: ignore[no-any-return]

    async def home(request: Request) -> Response:
        return PlainTextResponse(f"{len(app.routes) + len(inner.routes)} routes")

    app.add_route("/", home)
    app.add_route("/sold", free)
    app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    app.add_middleware(PaywallMiddleware, paywall=make_paywall())
    client = TestClient(app, "http://seller.example")
    statuses = [client.get(path).status_code for path in ("/", "/sold", "/inner/about", "/inner/sold", "/no")]
    assert statuses == [200, 200, 200, 402, 404]
    rows = [(row.path, row.access) for row in inspect_app(app).routes]
    assert rows == [
        ("/inner/about", "free"),
        ("/inner/sold", "paid"),
        ("/", "free"),
        ("/sold", "free"),
    ]


def test_below_a_refused_prefix_all_that_may_answer_is_sold() -> None:
    content = Content()
    shop = Starlette(routes=[Route("/sold", make_sold(content))])
    for site, status in ((make_site(), 402), (Starlette(routes=[Route("/sold", free)]), 403)):
        app = ASGIMiddleware(by_host(site, shop), make_paywall(), refuse=["/"])
        assert TestClient(app, "http://seller.example").get("/sold").status_code == status


# A paywall on one route, and what answers without a route


def on_a_route(wall: Any, paywall: Paywall, endpoint: Any) -> Any:
    route = Route("/sold", endpoint, middleware=[Middleware(wall, paywall=paywall)])
    return Starlette(routes=[route])


def as_the_default(wall: Any, paywall: Paywall, endpoint: Any) -> Any:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        await (await endpoint(Request(scope, receive)))(scope, receive, send)

    app = Starlette(middleware=[Middleware(wall, paywall=paywall)])
    app.router.default = run
    return app


def as_the_handler_of_404(wall: Any, paywall: Paywall, endpoint: Any) -> Any:
    async def missing(request: Request, error: Exception) -> Any:
        return await endpoint(request)

    return Starlette(exception_handlers={404: missing}, middleware=[Middleware(wall, paywall=paywall)])


PLACES = [on_a_route, as_the_default, as_the_handler_of_404]


@pytest.mark.parametrize("wall", [ASGIMiddleware, PaywallMiddleware])
@pytest.mark.parametrize("place", PLACES)
def test_a_memo_behind_a_paywall_of_one_place_gives_nothing_away(place: Any, wall: Any) -> None:
    trial = run_trial(lambda paywall, content: place(wall, paywall, remember_text(make_sold(content))))
    figures.count(KIND, trial.leaks, trial.tries)
    assert (trial.leaks, trial.sales) == ([], 1)


@pytest.mark.parametrize("wall", [ASGIMiddleware, PaywallMiddleware])
def test_a_memo_that_calls_something_else_gives_nothing_away_on_a_route(wall: Any) -> None:
    """What it wraps is not certain by itself: the route is known to run it."""

    def remember_by(key: Callable[[Request], str], endpoint: Any) -> Any:
        kept: dict[str, bytes] = {}

        async def run(request: Request) -> Response:
            if key(request) not in kept:
                answer: Response = await endpoint(request)
                if answer.status_code != 200:
                    return answer
                kept[key(request)] = bytes(answer.body)
            return Response(kept[key(request)])

        return run

    def make(paywall: Paywall, content: Content) -> Any:
        return on_a_route(wall, paywall, remember_by(lambda request: request.url.path, make_sold(content)))

    trial = run_trial(make)
    figures.count(KIND, trial.leaks, trial.tries)
    assert (trial.leaks, trial.sales) == ([], 1)


@pytest.mark.parametrize("wall", [ASGIMiddleware, PaywallMiddleware])
@pytest.mark.parametrize("place", PLACES)
def test_a_price_that_nothing_asks_for_gives_nothing_away_there(place: Any, wall: Any) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        async def report(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

        paid("daily_report")(report)
        return place(wall, paywall, report)

    trial = run_trial(make)
    figures.count(KIND, trial.leaks, trial.tries)
    assert trial.leaks == []


@pytest.mark.parametrize("wall", [ASGIMiddleware, PaywallMiddleware])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_sold_in_one_place_is_sold_and_what_is_free_is_free(place: Any, wall: Any) -> None:
    trial = run_trial(lambda paywall, content: place(wall, paywall, make_sold(content)))
    assert trial.leaks == []
    if place is not as_the_handler_of_404:  # which answers an exception: that is no result
        assert trial.outcome == SOLD
    assert TestClient(place(wall, make_paywall(), free)).get("/sold").text == "free"


# An application that cannot be found


SHOPS: dict[str, Any] = {}


def by_a_global(site: Any, shop: Any) -> Any:
    SHOPS["shop"] = shop

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await (SHOPS["shop"] if scope.get("path") == "/sold" else site)(dict(scope), receive, send)

    return run


@pytest.mark.parametrize("front", [behind_asgi, behind_starlette])
@pytest.mark.parametrize(("lead", "lines"), [*((lead, 0) for lead in LEADS), (by_a_global, 1)])
def test_an_application_that_is_hidden_is_said_once(
    lead: Lead, lines: int, front: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Starlette(routes=[Route("/sold", make_sold(Content()))])
    client = TestClient(front(lead(make_site(), shop), make_paywall()), "http://seller.example")
    assert [client.get("/sold").status_code for _ in range(3)] == [402] * 3
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == lines
    assert all("report asked for a payment, and its application is hidden" in line for line in said)
