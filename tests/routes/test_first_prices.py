"""A request without a payment is asked for the first price of its route before routing and dependencies run.

What is answered, and what the service is asked, are as if the application had asked itself.
"""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.routing import APIRoute
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route, Router

import faregate.fastapi
import faregate.starlette
from faregate.core.models import Response
from faregate.emulator import Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.paywall import Paywall
from tests.adapters.asgi import collect, http_scope

PRICE = faregate.fastapi.paid("daily_report")
SOLD = Depends(PRICE)
INSTRUCTIONS = (("Content-Type", "application/json"), ("PAYMENT-REQUIRED", "e30="), ("Retry-After", "3"))
UNPAID = Response(402, INSTRUCTIONS, b'{"code":"payment_required","message":"Pay first."}')
FREE = Response(200, (), b'{"transaction_id":null}')
GRANTED = Response(200, (), b'{"transaction_id":"txn_000000000000700080000000000000a1"}')
FAILED = Response(500, (), b"")
REFUSED = Response(422, (), b'{"code":"invalid_request","message":"No such revision."}')


class Service(EmbeddedTransport):
    """Answers access as it is told, and keeps what it was asked."""

    def __init__(self, answer: Response) -> None:
        super().__init__(Emulator())
        self.answer = answer
        self.asked: list[tuple[str, bytes | None]] = []

    async def asend(
        self, method: str, url: str, headers: Any, body: bytes | None, seconds: float
    ) -> Response:
        self.asked.append((url, body))
        if url.endswith("/access"):
            return self.answer
        return await super().asend(method, url, headers, body, seconds)


class Passing:
    """Middleware that changes nothing. It might answer, so the application behind it asks itself."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class Answering(Passing):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({"by": "middleware"}, 403)(scope, receive, send)


async def report() -> dict[str, str]:
    """The report of today."""
    return {"report": "sunny"}


def refuse() -> None:
    raise HTTPException(401)


@faregate.starlette.paid("daily_report")
async def endpoint(request: Request) -> JSONResponse:
    """The report of today."""
    return JSONResponse({"report": "sunny"})


async def free(request: Request) -> JSONResponse:
    return JSONResponse({})


Shop = Callable[[], Any]


def included(*dependencies: Any, prefix: str = "") -> Shop:
    """A router in a router in an application."""

    def make() -> FastAPI:
        app, outer, inner = FastAPI(), APIRouter(), APIRouter()
        inner.get("/report", dependencies=[] if dependencies else [SOLD])(report)
        outer.include_router(inner, dependencies=dependencies)
        app.include_router(outer, prefix=prefix)
        return app

    return make


def fastapi(*dependencies: Any, path: str = "/report", **options: Any) -> Shop:
    def make() -> FastAPI:
        app = FastAPI()
        app.get(path, dependencies=[*dependencies], **options)(report)
        return app

    return make


def fastapi_function(function: Any, path: str = "/report") -> Shop:
    def make() -> FastAPI:
        app = FastAPI()
        app.add_api_route(path, function, methods=["GET", "POST"])
        return app

    return make


def starlette_routes(*routes: Any) -> Shop:
    return lambda: Starlette(routes=list(routes))


async def receives_payment(payment: Annotated[faregate.fastapi.Payment, SOLD]) -> dict[str, str]:
    return {"report": "sunny"}


def needs_payment(payment: Annotated[faregate.fastapi.Payment, SOLD]) -> str:
    return "paid"


async def needs_service(service: Annotated[str, Depends(needs_payment)], day: int) -> dict[str, str]:
    return {"report": service}


class Day(BaseModel):
    name: str


async def takes_body(day: Day, payment: Annotated[faregate.fastapi.Payment, SOLD]) -> dict[str, str]:
    return {"report": day.name}


def choose(request: Request) -> str:
    return "daily_report"


def keep(function: Any) -> Any:
    @wraps(function)
    async def kept(request: Request) -> Any:
        return await function(request)

    return kept


class OwnRoute(APIRoute):
    pass


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths for which a router has called a route."""
    handle, handle_api, paths = Route.handle, APIRoute.handle, list[str]()

    async def noted(self: Any, scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        await (handle_api if isinstance(self, APIRoute) else handle)(self, scope, receive, send)

    async def noted_once(self: Any, *message: Any) -> None:
        await (handle if isinstance(self, APIRoute) else noted)(self, *message)

    monkeypatch.setattr(APIRoute, "handle", noted)
    monkeypatch.setattr(Route, "handle", noted_once)
    return paths


def ask(app: Any, path: str, body: bytes = b"", **scope: Any) -> list[Any]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    sent: list[Any] = []
    asyncio.run(app(http_scope(path, **scope), receive, collect(sent)))
    return sent


def paywall_of(service: Service) -> Paywall:
    return Paywall(
        base_url="http://service.example", api_key="svc_test_emulator", environ={}, transport=service
    )


def request(
    make: Shop, *inside: Any, answer: Response = UNPAID, path: str = "/report", **scope: Any
) -> tuple[list[Any], list[tuple[str, bytes | None]]]:
    """What an application sends for one request, and what the service was asked."""
    app, service = make(), Service(answer)
    for middleware in inside:
        app.add_middleware(middleware)
    kind: Any = (faregate.fastapi if isinstance(app, FastAPI) else faregate.starlette).PaywallMiddleware
    app.add_middleware(kind, paywall=paywall_of(service))
    return ask(app, path, **scope), service.asked


ASKED_FIRST: dict[str, Shop] = {
    "dependency": fastapi(SOLD),
    "before another dependency": fastapi(SOLD, Depends(refuse)),
    "parameter": fastapi_function(receives_payment),
    "dependency of a dependency": fastapi_function(needs_service),
    "starlette": starlette_routes(Route("/report", endpoint)),
    "included router": included(),
    "price of an inclusion": included(SOLD),
    "after a free route": starlette_routes(
        Route("/free", report), Mount("/files", Starlette()), Route("/report", endpoint)
    ),
}


@pytest.mark.parametrize("answer", [UNPAID, GRANTED, FAILED, REFUSED], ids=lambda one: str(one.status))
@pytest.mark.parametrize("name", ASKED_FIRST)
def test_the_price_is_asked_for_before_routing_with_the_same_answer_and_question(
    name: str, answer: Response, reached: list[str]
) -> None:
    first = request(ASKED_FIRST[name], answer=answer)
    assert reached == []
    assert request(ASKED_FIRST[name], Passing, answer=answer) == first
    assert reached == ["/report"]


@pytest.mark.parametrize("name", ASKED_FIRST)
def test_no_router_is_called_for_a_price_that_is_asked_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[str] = []

    def watch(kind: Any) -> None:
        route = kind.app

        async def note(self: Any, scope: Any, receive: Any, send: Any) -> None:
            routed.append(scope["path"])
            await route(self, scope, receive, send)

        monkeypatch.setattr(kind, "app", note)

    for kind in (Router, APIRouter):
        watch(kind)
    request(ASKED_FIRST[name])
    assert routed == []
    request(ASKED_FIRST[name], Passing)
    assert routed


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (fastapi(SOLD, path="/reports/{day}"), "/reports/7"),
        (starlette_routes(Route("/reports/{day:int}", endpoint)), "/reports/7"),
        (included(prefix="/shops/{shop}"), "/shops/7/report"),
    ],
    ids=["fastapi", "starlette", "included"],
)
def test_the_price_of_a_path_with_parameters_is_asked_for_before_routing(
    make: Shop, path: str, reached: list[str]
) -> None:
    first = request(make, path=path)
    assert reached == []
    assert request(make, Passing, path=path) == first


def test_head_and_an_upgrade_are_answered_as_by_the_application(reached: list[str]) -> None:
    upgrade = [(b"host", b"x"), (b"upgrade", b"websocket")]
    scopes: tuple[dict[str, Any], ...] = ({"method": "HEAD"}, {"headers": upgrade})
    for scope in scopes:
        first = request(ASKED_FIRST["starlette"], **scope)
        assert reached == []
        assert request(ASKED_FIRST["starlette"], Passing, **scope) == first
        reached.clear()


@pytest.mark.parametrize("name", ASKED_FIRST)
def test_what_is_free_is_asked_for_once_and_served(name: str, reached: list[str]) -> None:
    first = request(ASKED_FIRST[name], answer=FREE, query_string=b"day=1")
    assert first == request(ASKED_FIRST[name], Passing, answer=FREE, query_string=b"day=1")
    assert len([url for url, _ in first[1] if url.endswith("/access")]) == 1
    assert reached == ["/report", "/report"]


def override() -> Any:
    app = fastapi(SOLD)()
    app.dependency_overrides[PRICE] = lambda: None
    return app


def own_route() -> Any:
    app = FastAPI()
    app.router.route_class = OwnRoute
    app.get("/report", dependencies=[SOLD])(report)
    return app


ASKS_ITSELF: dict[str, tuple[Shop, int]] = {
    "a dependency before the price": (fastapi(Depends(refuse), SOLD), 401),
    "a function that chooses": (
        fastapi(Depends(faregate.fastapi.paid(choose, among=["daily_report"]))),
        402,
    ),
    "an override": (override, 200),
    "a route class of the seller": (own_route, 402),
    "middleware of the route": (
        starlette_routes(Route("/report", endpoint, middleware=[Middleware(Passing)])),
        402,
    ),
    "a decorator above the price": (starlette_routes(Route("/report", keep(endpoint))), 402),
}


@pytest.mark.parametrize("name", ASKS_ITSELF)
def test_the_application_asks_where_something_else_may_answer_first(name: str, reached: list[str]) -> None:
    make, status = ASKS_ITSELF[name]
    sent, _ = request(make)
    assert sent[0]["status"] == status
    assert reached == ["/report"]


def test_middleware_behind_the_paywall_answers_first(reached: list[str]) -> None:
    sent, asked = request(fastapi(SOLD), Answering)
    assert (sent[0]["status"], asked, reached) == (403, [], [])


def test_an_earlier_route_that_takes_the_path_answers() -> None:
    make = starlette_routes(Route("/{day:int}", free), Route("/{name}", endpoint))
    sent, asked = request(make, path="/7")
    assert (sent[0]["status"], asked) == (200, [])
    assert request(make, path="/today")[0][0]["status"] == 402


def test_a_body_is_parsed_before_the_price_is_asked_for(reached: list[str]) -> None:
    headers = [(b"host", b"x"), (b"content-type", b"application/json")]
    sent, asked = request(fastapi_function(takes_body), method="POST", body=b"no json", headers=headers)
    assert (sent[0]["status"], asked, reached) == (422, [], ["/report"])


def test_options_is_answered_by_the_application(reached: list[str]) -> None:
    assert request(fastapi(SOLD), method="OPTIONS")[0][0]["status"] == 405
    assert reached == ["/report"]


def test_the_trace_of_fastapi_names_the_route_of_a_402() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = FastAPI(telemetry={"tracer_provider": provider})
    app.get("/reports/{day}", dependencies=[SOLD])(report)
    sent, _ = request(lambda: app, path="/reports/7")
    assert sent[0]["status"] == 402
    assert "GET /reports/{day}" in [span.name for span in spans.get_finished_spans()]


def test_routes_that_are_added_and_taken_away_later_count(reached: list[str]) -> None:
    app, service = fastapi(SOLD)(), Service(UNPAID)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall_of(service))
    assert ask(app, "/late")[0]["status"] == 404
    app.get("/late", dependencies=[SOLD])(receives_payment)
    assert ask(app, "/late")[0]["status"] == 402
    assert reached == []
    app.router.routes.pop()
    assert ask(app, "/late")[0]["status"] == 404


def test_a_route_that_an_included_router_gets_later_counts(reached: list[str]) -> None:
    app, router, service = FastAPI(), APIRouter(), Service(UNPAID)
    app.include_router(router, prefix="/shop")
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall_of(service))
    assert ask(app, "/shop/late")[0]["status"] == 404
    router.get("/late", dependencies=[SOLD])(report)
    assert ask(app, "/shop/late")[0]["status"] == 402
    assert reached == []
    router.get("/free")(report)
    assert ask(app, "/shop/free")[0]["status"] == 200
