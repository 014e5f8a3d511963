"""Every order of every decorator on every kind of endpoint of Starlette: sold, or refused with a sentence."""

import functools
from itertools import permutations
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import Content
from tests.attacks.decorators import CACHES, OTHERS, Members
from tests.attacks.report import figures
from tests.attacks.trial import IMPORT, REQUEST, SOLD, Make, run_trial
from tests.support.products import take_part

PRICE = "paid"
DECORATORS: dict[str, Any] = {PRICE: paid("daily_report"), **CACHES, **OTHERS}
ANSWERED = "something in front of it answered without a payment. Put the price outside"
LOGIN = "Put @requires above @paid"

ALONE = [(PRICE,)]
PAIRS = [order for other in (*CACHES, *OTHERS) for order in permutations((PRICE, other))]
TRIPLES = [order for one in CACHES for other in OTHERS for order in permutations((PRICE, one, other))]
"""From the outside in."""


def decorated(endpoint: Any, order: tuple[str, ...]) -> Any:
    for name in reversed(order):
        endpoint = DECORATORS[name](endpoint)
    return endpoint


def function(content: Content, order: tuple[str, ...]) -> Route:
    async def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"))

    return Route("/sold", decorated(report, order))


def blocking(content: Content, order: tuple[str, ...]) -> Route:
    def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"))

    return Route("/sold", decorated(report, order), methods=["GET", "POST"])


def partly(content: Content, order: tuple[str, ...]) -> Route:
    async def report(request: Request, kind: str) -> Response:
        return PlainTextResponse(content.mark(kind))

    return Route("/sold", functools.partial(decorated(functools.partial(report, kind="body"), order)))


def bound(content: Content, order: tuple[str, ...]) -> Route:
    class Views:
        async def report(self, request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

    return Route("/sold", decorated(Views().report, order))


def instance(content: Content, order: tuple[str, ...]) -> Route:
    class View:
        async def __call__(self, request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

    return Route("/sold", decorated(View(), order))


def mounted(content: Content, order: tuple[str, ...]) -> Any:
    return Mount("/", routes=[Mount("", routes=[function(content, order)])])


def subapplication(content: Content, order: tuple[str, ...]) -> Any:
    return Mount("/", app=Starlette(routes=[function(content, order)]))


def method(content: Content, order: tuple[str, ...]) -> Route:
    class View(HTTPEndpoint):
        async def get(self, request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

    View.get = decorated(View.get, order)  # type: ignore[method-assign]
    return Route("/sold", View)


KINDS = {
    kind.__name__: kind for kind in (function, blocking, partly, bound, instance, mounted, subapplication)
}
TAKES_ONE_ARGUMENT = {"cached bare", "cached by default", "cached by an object", "cached twice", "timed bare"}
CELLS = [
    *((kind, order) for kind in KINDS for order in (*ALONE, *PAIRS)),
    *(("method", order) for order in (*ALONE, *PAIRS) if not TAKES_ONE_ARGUMENT & {*order}),
    *(("function", order) for order in TRIPLES),
]


def making(kind: str, order: tuple[str, ...]) -> Make:
    def make(paywall: Paywall, content: Content) -> Any:
        route = {**KINDS, "method": method}[kind](content, order)
        layers = [
            Middleware(AuthenticationMiddleware, backend=Members()),
            Middleware(PaywallMiddleware, paywall=paywall),
        ]
        return Starlette(routes=[route], middleware=layers)

    return make


@pytest.mark.parametrize(
    ("kind", "order"),
    take_part(CELLS, lambda _, order: len(order) < 3),
    ids=lambda value: value if isinstance(value, str) else " > ".join(value),
)
def test_no_order_of_decorators_gives_a_handler_away(kind: str, order: tuple[str, ...]) -> None:
    trial = run_trial(making(kind, order))
    figures.count("orders of decorators", trial.leaks, max(trial.tries, 1))
    assert trial.leaks == []
    outside, inside = order[: order.index(PRICE)], order[order.index(PRICE) + 1 :]
    if "login" in inside:
        assert (trial.outcome, LOGIN in trial.said) == (IMPORT, True), trial
    elif set(outside) & {*CACHES}:
        assert (trial.outcome, ANSWERED in trial.said, trial.sales) == (REQUEST, True, 1), trial
    else:
        assert trial.outcome == SOLD, trial
