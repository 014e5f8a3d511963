"""What a handler of exceptions answers in place of a paid handler is no result: its payer is not charged."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import HTTPException, RequestValidationError
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.starlette
from faregate.asgi import PaywallMiddleware, require_payment
from faregate.emulator import Wallet
from faregate.merchant import wire
from faregate.merchant.models import TransactionQuery
from faregate.offers import offer
from faregate.paywall import Paywall
from tests.attacks.site import make_paywall

LOGIN = "/login"
STATUSES = (200, 303)


class Stranger(Exception):
    """Raised for a user who is not logged in."""


def build_answer(status: int) -> Response:
    return RedirectResponse(LOGIN, status) if status >= 300 else JSONResponse({"ok": False}, status)


def make_handler(status: int, is_async: bool = True) -> Any:
    async def answer_async(_request: Request, _error: Exception) -> Response:
        return build_answer(status)

    def answer(_request: Request, _error: Exception) -> Response:
        return build_answer(status)

    return answer_async if is_async else answer


def raise_it(status: int, kind: str) -> Any:
    raise HTTPException(status, headers={"Location": LOGIN}) if kind == "http" else Stranger


def list_statuses(paywall: Paywall) -> list[str]:
    """The status of each transaction."""
    return [str(one.status) for one in paywall.call(wire.list_transactions(TransactionQuery())).items]


def buy(app: Any, paywall: Paywall, path: str = "/sold") -> tuple[int, list[str]]:
    """The status that a payer gets, and those of all transactions."""
    client = TestClient(app, "http://seller.example", raise_server_exceptions=False, follow_redirects=False)
    with client:
        unpaid = client.get(path)
        assert unpaid.status_code == 402
        answer = client.get(
            path, headers={"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])}
        )
    return answer.status_code, list_statuses(paywall)


def price() -> Any:
    return Depends(faregate.fastapi.paid("daily_report"))


def sell_on_route(app: FastAPI, user: Any) -> None:
    app.get("/sold", dependencies=[price(), Depends(user)])(lambda: "result")


def sell_by_parameter(app: FastAPI, user: Any) -> None:
    @app.get("/sold")
    async def sold(_payment: Annotated[Any, price()], _user: Annotated[Any, Depends(user)]) -> str:
        return "result"


def sell_on_router(app: FastAPI, user: Any) -> None:
    router = APIRouter(dependencies=[price()])
    router.get("/sold", dependencies=[Depends(user)])(lambda: "result")
    app.include_router(router)


def sell_where_included(app: FastAPI, user: Any) -> None:
    router = APIRouter(dependencies=[Depends(user)])
    router.get("/sold")(lambda: "result")
    app.include_router(router, dependencies=[price()])


def sell_mounted(app: FastAPI, user: Any) -> None:
    """The exception handlers are those of the mounted application."""
    handlers: Any = app.exception_handlers
    inner = FastAPI(openapi_url=None, dependencies=[price()], exception_handlers=handlers)
    inner.get("/")(user)
    app.mount("/sold", inner)


def sell_raising(app: FastAPI, user: Any) -> None:
    app.get("/sold", dependencies=[price()])(user)


FASTAPI: dict[str, Callable[[FastAPI, Any], None]] = {
    "route": sell_on_route,
    "parameter": sell_by_parameter,
    "router": sell_on_router,
    "included": sell_where_included,
    "mounted": sell_mounted,
    "raised in the route": sell_raising,
}


class Passing(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        return answer


class Copying:
    """Gives the application a copy of the scope."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app({**scope}, receive, send)


@pytest.mark.parametrize("kind", ["http", "own"])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("sell", FASTAPI.values(), ids=FASTAPI)
def test_an_exception_that_fastapi_answers_is_failed_work(sell: Any, status: int, kind: str) -> None:
    paywall = make_paywall()
    handlers: Any = {Stranger: make_handler(status)}
    app = FastAPI(openapi_url=None, exception_handlers=handlers)
    sell(app, lambda: raise_it(status, kind))
    app.add_middleware(Passing)
    app.add_middleware(Copying)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    assert buy(app, paywall, "/sold/" if sell is sell_mounted else "/sold") == (500, ["failed"])


@pytest.mark.parametrize("status", STATUSES)
def test_a_request_that_a_handler_of_validation_errors_answers_is_failed_work(status: int) -> None:
    paywall = make_paywall()
    app = FastAPI(openapi_url=None)
    app.add_exception_handler(RequestValidationError, make_handler(status, is_async=False))

    @app.get("/sold", dependencies=[price()])
    async def sold(page: int) -> int:
        return page

    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    assert buy(app, paywall) == (500, ["failed"])


OFFER = offer("daily_report")


def make_starlette(how: str, status: int, paywall: Paywall) -> Any:
    async def sold(request: Request) -> Response:
        if how == "require_payment":
            await require_payment(request.scope, OFFER)
        raise Stranger

    endpoint = faregate.starlette.paid("daily_report")(sold) if how in ("paid", "outside") else sold
    routes = [Route("/sold", endpoint)]
    if how == "outside":  # Starlette's answer to any exception is inside the paywall
        return PaywallMiddleware(
            Starlette(routes=routes, exception_handlers={500: make_handler(status)}), paywall
        )
    offers = {"/sold": offer("daily_report", billable=frozenset((200, 303)))} if how == "prefix" else None
    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall, offers=offers)
    handlers: Any = {Stranger: make_handler(status, is_async=how == "paid")}
    return Starlette(routes=routes, middleware=[front, Middleware(Passing)], exception_handlers=handlers)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("how", ["paid", "prefix", "require_payment", "outside"])
def test_an_exception_that_starlette_answers_is_failed_work(how: str, status: int) -> None:
    paywall = make_paywall()
    assert buy(make_starlette(how, status, paywall), paywall) == (500, ["failed"])


AGAIN = Stranger()


def raise_again() -> None:
    """Raise the same object with each request."""
    raise AGAIN


@pytest.mark.parametrize("raise_any", [lambda: raise_it(200, "own"), raise_again], ids=["new", "again"])
@pytest.mark.parametrize("outside", [(), (Copying,), (Passing,)], ids=["plain", "copying", "passing"])
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("status", STATUSES)
def test_what_answers_any_exception_of_the_application_gives_no_result(
    status: int, is_async: bool, outside: tuple[Any, ...], raise_any: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Starlette calls the handler of `Exception` outside all middleware, so outside the paywall as well."""
    paywall = make_paywall()
    app = FastAPI(openapi_url=None, exception_handlers={Exception: make_handler(status, is_async)})
    app.get("/sold", dependencies=[price()])(raise_any)
    app.get("/free")(raise_any)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    for middleware in outside:
        app.add_middleware(middleware)
    with caplog.at_level(logging.WARNING, "faregate"):
        assert buy(app, paywall) == (500, ["failed"])
    assert f"answered with {status}" in caplog.text
    client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
    assert client.get("/free").status_code == status


@pytest.mark.parametrize("how", ["mounted", "validation", "before the price", "error"])
def test_an_exception_carries_no_result_past_the_paywall(how: str) -> None:
    class Kept(Exception):
        pass

    async def answer(_request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}", 409 if how == "error" else 200)

    async def refuse() -> None:
        if how == "before the price":
            raise Kept("the result")

    paywall = make_paywall()
    app = FastAPI(openapi_url=None, exception_handlers={Exception: answer})
    inner = FastAPI(openapi_url=None) if how == "mounted" else app

    @inner.get("/sold", dependencies=[Depends(refuse), price()])
    async def sold() -> int:
        return "the result"  # type: ignore[return-value]

    if how == "mounted":
        app.mount("/at", inner)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    path = "/at/sold" if how == "mounted" else "/sold"
    if how == "before the price":
        with TestClient(app, "http://seller.example", raise_server_exceptions=False) as client:
            got = client.get(path)
        assert (got.status_code, "the result" in got.text) == (502, False)
    else:
        assert buy(app, paywall, path) == (409 if how == "error" else 500, ["failed"])


def test_an_exception_after_the_release_is_not_called_unpaid(caplog: pytest.LogCaptureFixture) -> None:
    async def end() -> Any:
        yield
        raise Stranger

    paywall = make_paywall()
    app = FastAPI(openapi_url=None, exception_handlers={Exception: make_handler(200)})
    app.get("/sold", dependencies=[price(), Depends(end)])(lambda: "result")
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    with caplog.at_level(logging.WARNING, "faregate"):
        assert buy(app, paywall) == (200, ["succeeded"])
    assert "nothing was charged" not in caplog.text


def test_a_raised_status_is_no_result_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """`HTTPException(200)` on purpose: a route returns what it sells."""
    paywall = make_paywall()
    app = FastAPI(openapi_url=None)
    app.get("/sold", dependencies=[price()])(lambda: raise_it(200, "http"))
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    with caplog.at_level(logging.WARNING, "faregate"):
        assert buy(app, paywall) == (500, ["failed"])
    assert "answered with 200 is no result. To sell that response, return it" in caplog.text


@pytest.mark.parametrize("adapter", ["fastapi", "starlette"])
def test_a_redirect_that_is_returned_is_a_result(adapter: str) -> None:
    paywall = make_paywall()

    async def sold(request: Request) -> Response:
        try:
            raise Stranger
        except Stranger:
            return RedirectResponse(LOGIN, 303, background=BackgroundTask(lambda: None))

    app: Any
    if adapter == "fastapi":
        app = FastAPI(openapi_url=None)
        app.get("/sold", dependencies=[price()])(sold)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    else:
        front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
        app = Starlette(
            routes=[Route("/sold", faregate.starlette.paid("daily_report")(sold))], middleware=[front]
        )
    assert buy(app, paywall) == (303, ["succeeded"])


def test_an_error_that_the_offer_bills_is_billed_when_it_is_raised() -> None:
    """A seller names an error on purpose, and FastAPI's way to answer with one is to raise it."""
    paywall = make_paywall()
    app = FastAPI(openapi_url=None)
    sold = Depends(faregate.fastapi.paid("daily_report", billable=frozenset((200, 404))))
    app.get("/sold", dependencies=[sold])(lambda: raise_it(404, "http"))
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    assert buy(app, paywall) == (404, ["succeeded"])


class Envelope(BaseHTTPMiddleware):
    """Answers everything with 200, as some APIs do."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        answer = await call_next(request)
        body = b"".join([chunk async for chunk in answer.body_iterator])
        return JSONResponse({"code": answer.status_code, "data": body.decode()})


@pytest.mark.parametrize("place", ["application", "mounted"])
@pytest.mark.parametrize("way", ["raised", "returned", "validated"])
def test_an_error_in_an_envelope_is_failed_work(way: str, place: str) -> None:
    paywall = make_paywall()
    app = site = FastAPI(openapi_url=None)

    def answer(missing: str | None = None) -> Any:
        return raise_it(404, "http") if way == "raised" else JSONResponse({"found": missing}, 404)

    def need(count: int) -> int:
        return count

    checked = [Depends(need)] if way == "validated" else []
    app.get("/sold", dependencies=[price(), *checked])(answer)
    app.add_middleware(Envelope)
    if place == "mounted":
        site = FastAPI(openapi_url=None)
        site.mount("/", app)
    site.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    assert buy(site, paywall) == (500, ["failed"])


class Refusal(BaseHTTPMiddleware):
    """Answers with an error, whatever the body."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        answer.status_code = 403
        return answer


@pytest.mark.parametrize("adapter", ["fastapi", "starlette"])
def test_an_error_that_is_made_of_a_result_does_not_carry_it(adapter: str) -> None:
    paywall = make_paywall()
    app: Any
    if adapter == "fastapi":
        app = FastAPI(openapi_url=None)
        app.get("/sold", dependencies=[price()])(lambda: "result")
        app.add_middleware(Refusal)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    else:
        sold = faregate.starlette.paid("daily_report")(lambda _request: JSONResponse("result"))
        front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
        app = Starlette(routes=[Route("/sold", sold)], middleware=[front, Middleware(Refusal)])
    client = TestClient(app)
    proof = Wallet().pay(client.get("/sold").headers["payment-required"])
    answer = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, answer.content) == (403, b"")
    assert list_statuses(paywall) == ["failed"]


async def change(answer: Response, way: str) -> Response:
    """Give a response another status; `way` is how."""
    if way == "raised":
        raise HTTPException(409, bytes(answer.body).decode())
    if way == "changed":
        answer.status_code = 409
        return answer
    return JSONResponse(bytes(answer.body).decode(), 409 if answer.status_code == 200 else 200)


@pytest.mark.parametrize("way", ["raised", "changed", "replaced"])
@pytest.mark.parametrize("place", ["decorator", "class", "dispatch"])
def test_a_decorator_above_the_price_makes_no_error_of_a_result(place: str, way: str) -> None:
    paywall = make_paywall()

    class Sold(HTTPEndpoint):
        @faregate.starlette.paid("daily_report")
        async def get(self, request: Request) -> Response:
            return JSONResponse("result")

    class Changed(Sold):
        async def get(self, request: Request) -> Response:
            return await change(await super().get(request), way)

    class Dispatched(Sold):
        async def dispatch(self) -> None:
            answer = await change(await self.get(Request(self.scope, self.receive)), way)
            await answer(self.scope, self.receive, self.send)

    @faregate.starlette.paid("daily_report")
    async def sold(_request: Request) -> Response:
        return JSONResponse("result")

    @wraps(sold)
    async def decorated(request: Request) -> Response:
        return await change(await sold(request), way)

    endpoint: Any = {"decorator": decorated, "class": Changed, "dispatch": Dispatched}[place]
    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
    app = Starlette(routes=[Route("/sold", endpoint)], middleware=[front])
    client = TestClient(app)
    proof = Wallet().pay(client.get("/sold").headers["payment-required"])
    answer = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, answer.content) == (409, b"")
    assert list_statuses(paywall) == ["failed"]


def test_a_decorator_above_the_price_makes_no_result_of_an_error() -> None:
    paywall = make_paywall()

    @faregate.starlette.paid("daily_report")
    async def fail(_request: Request) -> Response:
        return JSONResponse("nothing", 404)

    @wraps(fail)
    async def sold(request: Request) -> Response:
        return await change(await fail(request), "replaced")

    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
    app = Starlette(routes=[Route("/sold", sold)], middleware=[front])
    assert buy(app, paywall) == (500, ["failed"])


@pytest.mark.parametrize("status", [200, 404])
def test_what_the_offer_bills_is_sold_in_an_envelope(status: int) -> None:
    paywall = make_paywall()
    app = FastAPI(openapi_url=None)
    sold = Depends(faregate.fastapi.paid("daily_report", billable=frozenset((200, 404))))
    app.get("/sold", dependencies=[sold])(lambda: JSONResponse({"found": False}, status))
    app.add_middleware(Envelope)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    assert buy(app, paywall) == (200, ["succeeded"])


def test_what_is_free_redirects_by_an_exception() -> None:
    app = FastAPI(openapi_url=None)
    free = Depends(faregate.fastapi.paid("free_notes"))
    app.get("/notes", dependencies=[free])(lambda: raise_it(303, "http"))
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    answer = TestClient(app, "http://seller.example", follow_redirects=False).get("/notes")
    assert (answer.status_code, answer.headers["location"]) == (303, LOGIN)


def test_an_application_that_is_tried_before_the_one_that_sells_does_not_fail_it() -> None:
    """Below a prefix, the first application answers 404 by an exception, and the second one is sold."""
    paywall = make_paywall()
    first = Starlette()
    second = Starlette(routes=[Route("/sold", lambda request: PlainTextResponse("result"))])

    async def cascade(scope: Any, receive: Any, send: Any) -> None:
        missed: list[int] = []

        async def look(message: Any) -> None:
            if message["type"] == "http.response.start":
                missed.append(message["status"])

        if scope["type"] == "http":
            await first(scope, receive, look)
            assert missed == [404]
            await second(scope, receive, send)

    app = PaywallMiddleware(cascade, paywall, offers={"/sold": "daily_report"})
    assert buy(app, paywall) == (200, ["succeeded"])


@pytest.mark.parametrize("is_fastapi", [False, True])
def test_a_handler_of_404_that_is_sold_itself_is_sold_each_time(is_fastapi: bool) -> None:
    @faregate.starlette.paid("daily_report")
    async def page(request: Request, _error: Exception) -> Response:
        return PlainTextResponse("the page for all paths")

    paywall = make_paywall()
    front = (faregate.fastapi if is_fastapi else faregate.starlette).PaywallMiddleware
    kind: Any = FastAPI if is_fastapi else Starlette
    handlers: Any = {404: page}
    app = kind(exception_handlers=handlers, middleware=[Middleware(front, paywall=paywall)])
    for count in range(1, 4):
        assert buy(app, paywall, "/any") == (200, ["succeeded"] * count)
