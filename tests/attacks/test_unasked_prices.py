"""A price that is declared, and that no route asks for: refused at the start, or said in the log."""
# ruff: noqa: B008 - FastAPI's prices are defaults of parameters

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request, Security
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.starlette
from faregate.fastapi import Payment, RequirePayment, paid
from faregate.paywall import Paywall
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall
from tests.attacks.trial import REQUEST, SOLD, START, run_trial

UNASKED = "declares Depends(paid('daily_report')), and its route does not ask for it"
NOT_CALLED = "Write Depends(paid('text_summary')), with what is sold."
Write = Callable[[Content], Any]
"""Makes an endpoint that declares a price."""


def price() -> RequirePayment:
    return paid("daily_report")


# Endpoints that FastAPI does not call


def as_a_default(content: Content) -> Any:
    async def sold(request: Request, payment: Any = Depends(price())) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def of_a_blocking_function(content: Content) -> Any:
    def sold(request: Request, *, payment: Any = Security(price())) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def in_annotated(content: Content) -> Any:
    async def sold(request: Request, payment: Annotated[Payment | None, Depends(price())] = None) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def alone_in_annotated(content: Content) -> Any:
    async def sold(request: Request, payment: Annotated[Any, price()] = None) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def in_an_optional_annotated(content: Content) -> Any:
    async def sold(request: Request, payment: Annotated[Payment, Depends(price())] | None = None) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def in_an_annotation_that_is_text(content: Content) -> Any:
    Paid = Annotated[Any, Depends(price())]  # noqa: N806 - a type

    async def sold(request: Request, payment: "Paid" = None, other: "Unknown" = None) -> Response:  # type: ignore[name-defined] # noqa: F821
        return PlainTextResponse(content.mark("body"), headers={"x-type": Paid.__name__})

    return sold


def below_a_dependency(content: Content) -> Any:
    def own(payment: Any = Depends(price())) -> Any:
        return payment

    async def sold(request: Request, payment: Any = Depends(own)) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def below_a_class(content: Content) -> Any:
    class Own:
        def __init__(self, payment: Any = Depends(price())) -> None:
            self.payment = payment

    async def sold(request: Request, own: Any = Depends(Own)) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def on_a_method(content: Content) -> Any:
    class Sold(HTTPEndpoint):
        async def get(self, request: Request, payment: Any = Depends(price())) -> Response:
            return PlainTextResponse(content.mark("body"))

    return Sold


ENDPOINTS: dict[str, Write] = {
    write.__name__: write
    for write in (
        as_a_default,
        of_a_blocking_function,
        in_annotated,
        alone_in_annotated,
        in_an_optional_annotated,
        in_an_annotation_that_is_text,
        below_a_dependency,
        below_a_class,
        on_a_method,
    )
}
PLACES: dict[str, Callable[[FastAPI | Starlette, Any], Any]] = {
    "a route": lambda app, endpoint: app.router.routes.append(Route("/sold", endpoint)),
    "add_route": lambda app, endpoint: app.router.add_route("/sold", endpoint),
    "a mount": lambda app, endpoint: app.mount("/", Starlette(routes=[Route("/sold", endpoint)])),
}


@pytest.mark.parametrize("kind", [FastAPI, Starlette])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_route_of_starlette_does_not_solve_a_dependency(name: str, place: str, kind: Any) -> None:
    front: Any = (faregate.fastapi if kind is FastAPI else faregate.starlette).PaywallMiddleware

    def make(paywall: Paywall, content: Content) -> Any:
        app = kind(middleware=[Middleware(front, paywall=paywall)])
        PLACES[place](app, ENDPOINTS[name](content))
        return app

    trial = run_trial(make)
    figures.count("prices that no route asks for", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome, UNASKED in trial.said) == ([], START, True), trial


def test_neither_does_it_call_paid_itself() -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        anything: Any = paid

        async def sold(request: Request, payment: Any = Depends(anything)) -> Response:
            return PlainTextResponse(content.mark("body"))

        middleware = [Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)]
        return Starlette(routes=[Route("/sold", sold)], middleware=middleware)

    trial = run_trial(make)
    assert (trial.leaks, trial.outcome, NOT_CALLED in trial.said) == ([], START, True), trial


# Endpoints of FastAPI whose price it does not see


def without_wraps(endpoint: Any) -> Any:
    async def run(request: Request) -> Any:
        return await endpoint(request)

    return run


def without_what_it_wraps(endpoint: Any) -> Any:
    run: Any = functools.wraps(endpoint)(without_wraps(endpoint))
    del run.__wrapped__
    return run


def with_a_signature_of_its_own(endpoint: Any) -> Any:
    run: Any = functools.wraps(endpoint)(without_wraps(endpoint))
    run.__signature__ = inspect.signature(without_wraps(endpoint))
    return run


def with_the_payment_bound(endpoint: Any) -> Any:
    return functools.partial(endpoint, payment=None)


HIDING = (without_wraps, without_what_it_wraps, with_a_signature_of_its_own, with_the_payment_bound)
HIDDEN = [(hide, write) for hide in HIDING for write in (as_a_default, in_annotated, below_a_dependency)]
HIDDEN.remove((with_the_payment_bound, in_annotated))  # FastAPI sees it, and asks


@pytest.mark.parametrize(("hide", "write"), HIDDEN)
def test_fastapi_does_not_solve_a_dependency_that_it_does_not_see(hide: Any, write: Write) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        app.add_api_route("/sold", hide(write(content)))
        return app

    trial = run_trial(make)
    figures.count("prices that no route asks for", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome, UNASKED in trial.said) == ([], START, True), trial


def test_a_price_that_a_test_overrides_is_not_asked_for() -> None:
    sold, content = price(), Content()

    def own(payment: Annotated[Any, Depends(sold)]) -> Any:
        return payment

    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app.add_api_route("/one", as_a_default(content), response_model=None)

    @app.get("/two")
    def two(payment: Annotated[Any, Depends(own)]) -> str:
        return content.mark("body")

    for overridden in (sold, own):
        app.dependency_overrides = {overridden: lambda: None}
        assert content.mark("body") in TestClient(app).get("/two").text
    app.dependency_overrides = {}
    assert TestClient(app).get("/two").status_code == 402


# Prices that are called, and not awaited


BEFORE = "A handler answered before the payment of 'daily_report' was asked for"
Asking = Callable[[Any, Any, Request], Any]
"""Asks for the payment with a price of FastAPI, or with a function that Starlette's `@paid` sells."""


def make_gate() -> Any:
    @faregate.starlette.paid("daily_report")
    async def gate(request: Request) -> Response:
        return Response()

    return gate


async def call_price(price: Any, gate: Any, request: Request) -> None:
    price(request, Response())


def call_price_in_a_thread(price: Any, gate: Any, request: Request) -> Any:
    return price(connection=request, response=Response())


async def call_gate(price: Any, gate: Any, request: Request) -> None:
    gate(request)


async def call_gate_in_a_task(price: Any, gate: Any, request: Request) -> None:
    request.state.task = asyncio.create_task(gate(request))


async def await_price(price: Any, gate: Any, request: Request) -> None:
    await price(request, Response())


async def await_gate(price: Any, gate: Any, request: Request) -> None:
    await gate(request)


FORGETFUL: tuple[Asking, ...] = (call_price, call_price_in_a_thread, call_gate, call_gate_in_a_task)


def answer_after(ask: Asking, kind: Any) -> Any:
    """Make an application whose endpoint asks in its own way, and then answers."""
    front: Any = (faregate.fastapi if kind is FastAPI else faregate.starlette).PaywallMiddleware
    prices = (price(), make_gate())

    def make(paywall: Paywall, content: Content) -> Any:
        async def sold(request: Request) -> Response:
            asked = ask(*prices, request)
            if ask is not call_price_in_a_thread:
                await asked
            return PlainTextResponse(content.mark("body"))

        return kind(routes=[Route("/sold", sold)], middleware=[Middleware(front, paywall=paywall)])

    return make


@pytest.mark.parametrize("kind", [FastAPI, Starlette])
@pytest.mark.parametrize("forget", FORGETFUL)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_forgotten_await_gives_nothing_away(forget: Asking, kind: Any) -> None:
    trial = run_trial(answer_after(forget, kind))
    figures.count("prices that are not awaited", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome, BEFORE in trial.said) == ([], REQUEST, True), trial


def without_the_response(sold: RequirePayment) -> Any:
    async def ask(request: Request) -> None:
        with contextlib.suppress(Exception):
            await sold(request)

    return ask


def without_arguments(sold: RequirePayment) -> Any:
    async def ask() -> None:
        with contextlib.suppress(Exception):
            await sold()

    return ask


def in_a_thread(sold: RequirePayment) -> Any:
    def ask(request: Request) -> None:
        with contextlib.suppress(Exception):
            sold(request)

    return ask


def with_all_arguments(sold: RequirePayment) -> Any:
    async def ask(request: Request, response: Response) -> None:
        with contextlib.suppress(Exception):
            await sold(request, response)

    return ask


@pytest.mark.parametrize(
    ("write", "status"),
    [(without_the_response, 502), (without_arguments, 502), (in_a_thread, 502), (with_all_arguments, 402)],
)
def test_a_dependency_that_catches_what_a_price_raises_gives_nothing_away(write: Any, status: int) -> None:
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app.add_api_route("/report", lambda: "content", dependencies=[Depends(write(price()))])
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/report")
    assert (answer.status_code, "content" in answer.text) == (status, False)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("forget", FORGETFUL[:3])
def test_nor_does_one_in_a_dependency(forget: Asking) -> None:
    prices = (price(), make_gate())

    async def ask(request: Request) -> None:
        await forget(*prices, request)

    def ask_in_a_thread(request: Request) -> Any:
        return forget(*prices, request)

    def make(paywall: Paywall, content: Content) -> Any:
        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        dependency = ask_in_a_thread if forget is call_price_in_a_thread else ask
        app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(dependency)])
        return app

    trial = run_trial(make)
    figures.count("prices that are not awaited", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome, BEFORE in trial.said) == ([], REQUEST, True), trial


@pytest.mark.parametrize("kind", [FastAPI, Starlette])
@pytest.mark.parametrize("ask", [await_price, await_gate])
def test_what_is_awaited_is_sold(ask: Asking, kind: Any) -> None:
    trial = run_trial(answer_after(ask, kind))
    assert (trial.leaks, trial.outcome) == ([], SOLD), trial


# Prices that a function looks up, that a class has, and that are added to a route too late


OWN = paid("daily_report")
OWN_PRICES = {"report": [OWN]}


class Shop:
    price = OWN

    def give(self) -> Any:
        return self.price

    def give_on(self) -> Any:
        return self.give()


def give_own() -> Any:
    return OWN


async def give_own_later() -> Any:
    return OWN


def choose_own(name: str = "report") -> Any:
    return OWN_PRICES[name][0] if name in OWN_PRICES else None


LOOKING_UP: dict[str, Any] = {
    "a lambda": lambda: OWN,
    "a declaration": lambda: Depends(OWN),
    "a container": lambda: OWN_PRICES["report"][0],
    "a container's method": lambda: OWN_PRICES.get("report"),
    "a class": lambda: Shop.price,
    "a method": Shop().give,
    "a method of a method": Shop().give_on,
    "another function": lambda: give_own(),
    "an async function": give_own_later,
    "a choice": choose_own,
}


@pytest.mark.parametrize("is_placed", [False, True])
@pytest.mark.parametrize("name", LOOKING_UP)
def test_a_dependency_that_looks_up_a_price_fails_the_start(name: str, is_placed: bool) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        if is_placed:
            app.add_api_route("/other", lambda: content.mark("other"), dependencies=[Depends(OWN)])
        app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(LOOKING_UP[name])])
        return app

    trial = run_trial(make)
    figures.count("prices that a function looks up", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome, "looks up paid('daily_report')" in trial.said) == ([], START, True), (
        trial
    )


def taken_for_a_payment(app: FastAPI, content: Content) -> None:
    def sold(payment: Annotated[Payment | None, Depends(give_own)]) -> str:
        return content.mark("body")

    app.add_api_route("/sold", sold)


def below_another_dependency(app: FastAPI, content: Content) -> None:
    def check(payment: Payment = Depends(give_own)) -> None:
        return None

    app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(check)])


def added_to_a_route(app: FastAPI, content: Content) -> None:
    app.add_api_route("/sold", lambda: content.mark("body"))
    for route in app.routes:
        getattr(route, "dependencies").append(Depends(OWN))  # noqa: B009 - of routes of FastAPI


def of_a_dependency_class(app: FastAPI, content: Content) -> None:
    class Common:
        payment: Any = Depends(OWN)

    def sold(common: Annotated[Common, Depends()]) -> str:
        return content.mark("body")

    app.add_api_route("/sold", sold)


def in_an_annotation_of_a_class(app: FastAPI, content: Content) -> None:
    class Common:
        payment: Annotated[Payment, Depends(OWN)]

    app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(Common)])


def of_the_class_of_a_view(app: FastAPI, content: Content) -> None:
    class View:
        payment: Any = Depends(OWN)

        def sold(self) -> str:
            return content.mark("body")

    app.add_api_route("/sold", View().sold)


UNSEEN = (
    taken_for_a_payment,
    below_another_dependency,
    added_to_a_route,
    of_a_dependency_class,
    in_an_annotation_of_a_class,
    of_the_class_of_a_view,
)


@pytest.mark.parametrize("add", UNSEEN)
def test_a_price_that_fastapi_never_sees_fails_the_start(add: Callable[[FastAPI, Content], None]) -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        add(app, content)
        return app

    trial = run_trial(make)
    figures.count("prices that a function looks up", trial.leaks, max(trial.tries, 1))
    assert (trial.leaks, trial.outcome) == ([], START), trial


def test_what_a_route_asks_for_as_well_is_sold() -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        class Common:
            payment: Any = Depends(OWN)

            def __init__(self, payment: Annotated[Payment, Depends(OWN)]) -> None:
                self.payment = payment

        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(Common)])
        return app

    assert run_trial(make).outcome == SOLD


# Functions that name a price and do more with it, or whose caller does


SEEN: list[str] = []


NOTE = functools.partial(SEEN.append, "asked")


def note_and_return() -> Any:
    NOTE()
    return OWN


def count_prices() -> None:
    SEEN.append(OWN.faregate_offer.sells)


def describe_prices() -> int:
    return len(repr(OWN_PRICES))


async def ask_members(request: Request, response: Response) -> None:
    if "x-member" not in request.headers:
        await OWN(request, response)


def refuse_strangers() -> None:
    if not OWN_PRICES:
        raise LookupError


def list_prices() -> Any:
    return OWN_PRICES


@pytest.mark.parametrize(
    "name", [note_and_return, count_prices, describe_prices, ask_members, refuse_strangers]
)
def test_a_dependency_that_does_more_is_left_alone(name: Any) -> None:
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app.add_api_route("/", lambda: "free", dependencies=[Depends(name)])
    with TestClient(app, headers={"x-member": "yes"}) as client:
        assert client.get("/").text == '"free"'


def test_a_page_may_be_given_a_list_of_prices() -> None:
    def page(prices: Annotated[Any, Depends(list_prices)]) -> list[str]:
        return [price.faregate_offer.sells for price in prices["report"]]

    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app.add_api_route("/", page)
    with TestClient(app) as client:
        assert client.get("/").json() == ["daily_report"]


def test_a_price_of_a_class_may_be_awaited() -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        class View:
            price = paid("daily_report")

            async def sold(self, request: Request, response: Response) -> str:
                await self.price(request, response)
                return content.mark("body")

        app = FastAPI(openapi_url=None)
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
        app.add_api_route("/sold", View().sold)
        return app

    assert run_trial(make).outcome == SOLD
