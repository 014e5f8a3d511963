"""Every natural way to write a price in FastAPI, right or wrong: sold, or refused with this sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Security
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.websockets import WebSocket

import faregate.starlette
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.fastapi import Payment, PaywallMiddleware, paid
from faregate.paywall import Paywall
from tests.attacks.content import Content
from tests.attacks.decorators import cached, timed
from tests.attacks.report import figures
from tests.attacks.trial import IMPORT, REQUEST, SOLD, START, run_trial

starlette_paid: Any = faregate.starlette.paid
anything: Any = paid
"""`paid`, as far as mistakes are concerned."""
NO_DECORATOR = "is a dependency, not a decorator: write @app.get"
NO_ARGUMENT = "takes the name of what is sold. Write"
NOT_CALLED = "depends on paid itself and sells nothing. Write Depends(paid('text_summary'))"
ABOVE = "but its route runs it without the price. Put @paid below the decorator of the route"
LOGIN = "pay for a redirect. Ask for the login in a dependency before paid(...)"
ANSWERED = "something in front of it answered without a payment"
UNOPENED = (
    "was created while a request was running, and sells nothing there. Make it where the handler is defined"
)
NO_PAYWALL = "no PaywallMiddleware is in front of it: app.add_middleware"


@dataclass(frozen=True)
class Form:
    """One way: `write` puts the content at `/sold`. `said` is part of the sentence."""

    outcome: str
    write: Callable[[FastAPI, Content], Any]
    said: str = ""
    after_start: Callable[[FastAPI, Content], None] | None = None
    has_paywall: bool = True


FORMS: dict[str, Form] = {}


def form(
    outcome: str, said: str = "", *, has_paywall: bool = True, after_start: Any = None
) -> Callable[[Callable[[FastAPI, Content], Any]], Any]:
    def register(write: Callable[[FastAPI, Content], Any]) -> Any:
        FORMS[write.__name__] = Form(outcome, write, said, after_start, has_paywall)
        return write

    return register


def paywall_of(app: Any) -> Any:
    return app.user_middleware[0].kwargs["paywall"]


# On a route


DEPENDENCIES: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "depends_in_dependencies": (SOLD, "", lambda: Depends(paid("daily_report"))),
    "alone_in_dependencies": (SOLD, "", lambda: paid("daily_report")),
    "security": (SOLD, "", lambda: Security(paid("daily_report"))),
    "called_without_a_key": (IMPORT, NO_ARGUMENT, lambda: Depends(anything(None))),
    "called_with_an_empty_key": (IMPORT, "Say what is sold", lambda: Depends(paid(""))),
    "called_without_arguments": (
        IMPORT,
        "missing 1 required positional argument: 'sells'",
        lambda: Depends(anything()),
    ),
    "paid_itself_in_dependencies": (START, NOT_CALLED, lambda: Depends(paid)),
    "called_twice": (IMPORT, NO_DECORATOR, lambda: Depends(anything("daily_report")())),
    "of_starlette_as_a_dependency": (START, NOT_CALLED, lambda: Depends(starlette_paid("daily_report"))),
    "of_starlette_itself_as_a_dependency": (START, NOT_CALLED, lambda: Depends(starlette_paid)),
    "made_by_a_dependency_with_depends": (
        REQUEST,
        UNOPENED,
        lambda: Depends(lambda: Depends(paid("daily_report"))),
    ),
    "made_by_a_dependency": (REQUEST, UNOPENED, lambda: Depends(lambda: paid("daily_report"))),
}


def sell_by_dependency(dependency: Callable[[], Any]) -> Callable[[FastAPI, Content], None]:
    """Sell a route by one of its dependencies. It is made with the route, where some mistakes show."""

    def write(app: FastAPI, content: Content) -> None:
        @app.get("/sold", dependencies=[dependency()])
        async def sold() -> str:
            return content.mark("body")

    return write


FORMS |= {name: Form(row[0], sell_by_dependency(row[2]), row[1]) for name, row in DEPENDENCIES.items()}
depends_in_dependencies = FORMS["depends_in_dependencies"].write


PARAMETERS: dict[str, tuple[str, str, Callable[[], tuple[Any, ...]]]] = {
    "depends_in_annotated": (SOLD, "", lambda: (Annotated[Payment, Depends(paid("daily_report"))],)),
    "depends_as_a_default": (SOLD, "", lambda: (Payment, Depends(paid("daily_report")))),
    "alone_as_a_default": (SOLD, "", lambda: (Any, paid("daily_report"))),
    "paid_itself_in_annotated_depends": (START, NOT_CALLED, lambda: (Annotated[Any, Depends(paid)],)),
    "paid_itself_as_a_default": (START, NOT_CALLED, lambda: (Any, paid)),
    "paid_itself_in_annotated": (START, NOT_CALLED, lambda: (Annotated[Any, paid], None)),
}
"""The annotation and the default of a parameter that gets the payment."""


def sell_by_parameter(
    outcome: str, parameter: Callable[[], tuple[Any, ...]]
) -> Callable[[FastAPI, Content], None]:
    def write(app: FastAPI, content: Content) -> None:
        async def sold(payment: Any) -> str:
            assert outcome != SOLD or payment.transaction_id is not None
            return content.mark("body")

        annotation, *default = parameter()
        sold.__annotations__["payment"] = annotation
        sold.__defaults__ = tuple(default)
        app.add_api_route("/sold", sold)

    return write


FORMS |= {name: Form(row[0], sell_by_parameter(row[0], row[2]), row[1]) for name, row in PARAMETERS.items()}


@form(START, LOGIN)
def login_on_a_route_with_a_price(app: FastAPI, content: Content) -> None:
    @app.get("/sold", dependencies=[Depends(paid("daily_report"))])
    @requires("member", redirect="sold")
    async def sold(request: Request) -> str:
        return content.mark("body")


@form(START, LOGIN)
def login_on_a_blocking_route_with_a_price_as_its_parameter(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    @requires("member")
    def sold(request: Request, payment: Annotated[Payment, Depends(paid("daily_report"))]) -> str:
        return content.mark("body")


@form(START, LOGIN)
def login_on_a_route_of_a_sold_application(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))

    @requires("member")
    async def sold(request: Request) -> str:
        return content.mark("body")

    app.add_api_route("/sold", timed(sold))


@form(IMPORT, "Put @requires above @paid")
def login_below_the_price_of_starlette(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    @faregate.starlette.paid("daily_report")
    @requires("member", redirect="sold")
    async def sold(request: Request) -> str:
        return content.mark("body")


@form(SOLD)
def login_in_a_dependency_before_the_price(app: FastAPI, content: Content) -> None:
    async def login(request: Request) -> None:
        if "x-member" not in request.headers:
            raise HTTPException(303, headers={"location": "/login"})

    @app.get("/sold", dependencies=[Depends(login), Depends(paid("daily_report"))])
    async def sold() -> str:
        return content.mark("body")


@form(SOLD)
def alone_in_annotated(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    def sold(payment: Annotated[Payment, paid("daily_report")]) -> str:
        assert payment.transaction_id is not None
        return content.mark("body")


@form(SOLD)
def one_offer_in_three_places(app: FastAPI, content: Content) -> None:
    offer = paid("daily_report")

    @app.get("/sold", dependencies=[offer, Depends(offer)])
    async def sold(payment: Annotated[Payment, offer]) -> str:
        return content.mark("body")


@form(SOLD)
def below_a_dependency(app: FastAPI, content: Content) -> None:
    async def own(payment: Annotated[Payment, Depends(paid("daily_report"))]) -> Payment:
        return payment

    @app.get("/sold")
    async def sold(payment: Annotated[Payment, Depends(own)]) -> str:
        return content.mark("body")


@form(SOLD)
def a_function_with_a_decorator(app: FastAPI, content: Content) -> None:
    @app.get("/sold", dependencies=[Depends(paid("daily_report"))])
    @cached
    async def sold() -> Response:
        return PlainTextResponse(content.mark("body"))


ROUTE = "the decorator of the route"
DECORATORS: dict[str, tuple[str, str, Callable[[], tuple[Any, ...]]]] = {
    "as_a_decorator_below_the_route": (IMPORT, NO_DECORATOR, lambda: (ROUTE, anything("daily_report"))),
    "as_a_decorator_above_the_route": (IMPORT, NO_DECORATOR, lambda: (anything("daily_report"), ROUTE)),
    "without_parentheses_below_the_route": (IMPORT, NO_ARGUMENT, lambda: (ROUTE, anything)),
    "without_parentheses_above_the_route": (IMPORT, NO_ARGUMENT, lambda: (anything, ROUTE)),
    # Starlette's decorator on a route of FastAPI
    "of_starlette_below_the_route": (SOLD, "", lambda: (ROUTE, starlette_paid("daily_report"))),
    "of_starlette_above_the_route": (START, ABOVE, lambda: (starlette_paid("daily_report"), ROUTE)),
    "of_starlette_above_a_cache_above_the_route": (
        START,
        ABOVE,
        lambda: (starlette_paid("daily_report"), cached, ROUTE),
    ),
    "of_starlette_without_parentheses": (IMPORT, NO_ARGUMENT, lambda: (ROUTE, starlette_paid)),
    "of_starlette_twice": (
        IMPORT,
        "sells 'text_summary' and 'daily_report'. Keep one offer",
        lambda: (ROUTE, starlette_paid("text_summary"), starlette_paid("daily_report")),
    ),
}
"""The decorators of an endpoint, the outermost first."""


def sell_by_decorator(decorators: Callable[[], tuple[Any, ...]]) -> Callable[[FastAPI, Content], None]:
    def write(app: FastAPI, content: Content) -> None:
        async def sold(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

        decorated: Any = sold
        for decorate in reversed(decorators()):
            decorated = (app.get("/sold") if decorate is ROUTE else decorate)(decorated)

    return write


FORMS |= {name: Form(row[0], sell_by_decorator(row[2]), row[1]) for name, row in DECORATORS.items()}


@form(START, NOT_CALLED)
def paid_itself_below_a_dependency(app: FastAPI, content: Content) -> None:
    async def own(payment: Annotated[Any, Depends(paid)]) -> Any:
        return payment

    @app.get("/sold", dependencies=[Depends(own)])
    async def sold() -> str:
        return content.mark("body")


@form(IMPORT, "not callable")
def parentheses_outside(app: FastAPI, content: Content) -> None:
    depends: Any = Depends(paid)

    @app.get("/sold", dependencies=[depends("daily_report")])
    async def sold() -> str:
        return content.mark("body")


@form(IMPORT, NO_DECORATOR)
def around_the_endpoint(app: FastAPI, content: Content) -> None:
    async def sold() -> str:
        return content.mark("body")

    app.add_api_route("/sold", anything("daily_report")(sold))


# Starlette's decorator on a route of FastAPI


@form(START, ABOVE)
def of_starlette_and_its_result_is_not_used(app: FastAPI, content: Content) -> None:
    async def sold(request: Request) -> str:
        return content.mark("body")

    app.add_api_route("/sold", sold)
    faregate.starlette.paid("daily_report")(sold)


@form(IMPORT, "is given the request. FastAPI: Depends(paid(...))")
def of_starlette_without_a_request(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    @faregate.starlette.paid("daily_report")
    async def sold() -> str:
        return content.mark("body")


@form(IMPORT, "on the methods of an endpoint class, not on the class")
def of_starlette_on_a_class(app: FastAPI, content: Content) -> None:
    @starlette_paid("daily_report")
    class Sold(HTTPEndpoint): ...

    app.router.routes.append(Route("/sold", Sold))


@form(IMPORT, "Put @staticmethod above @paid")
def of_starlette_above_a_static_method(app: FastAPI, content: Content) -> None:
    class Views:
        @starlette_paid("daily_report")  # type: ignore[untyped-decorator]
        @staticmethod
        async def sold(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

    app.router.routes.append(Route("/sold", Views.sold))


@form(SOLD)
def of_starlette_below_a_static_method(app: FastAPI, content: Content) -> None:
    class Views:
        @staticmethod
        @faregate.starlette.paid("daily_report")
        async def sold(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

    app.router.routes.append(Route("/sold", Views.sold))


@form(IMPORT, "is for an endpoint")
def of_starlette_around_no_function(app: FastAPI, content: Content) -> None:
    app.router.routes.append(Route("/sold", starlette_paid("daily_report")("sold")))


# On groups


@form(SOLD)
def on_a_router(app: FastAPI, content: Content) -> None:
    router = APIRouter(dependencies=[Depends(paid("daily_report"))])
    router.add_api_route("/sold", lambda: content.mark("body"))
    app.include_router(router)


@form(SOLD)
def alone_on_a_router(app: FastAPI, content: Content) -> None:
    router = APIRouter(dependencies=[paid("daily_report")])
    router.add_api_route("/sold", lambda: content.mark("body"))
    app.include_router(router)


@form(SOLD)
def where_a_router_is_included(app: FastAPI, content: Content) -> None:
    router = APIRouter()
    router.add_api_route("/sold", lambda: content.mark("body"))
    app.include_router(router, dependencies=[Depends(paid("daily_report"))])


@form(SOLD)
def alone_where_a_router_is_included(app: FastAPI, content: Content) -> None:
    inner, outer = APIRouter(), APIRouter()
    inner.add_api_route("/sold", lambda: content.mark("body"))
    outer.include_router(inner)
    app.include_router(outer, dependencies=[paid("daily_report")])


@form(START, NOT_CALLED)
def paid_itself_where_a_router_is_included(app: FastAPI, content: Content) -> None:
    router = APIRouter()
    router.add_api_route("/sold", lambda: content.mark("body"))
    app.include_router(router, dependencies=[Depends(paid)])


@form(SOLD)
def on_a_mounted_app(app: FastAPI, content: Content) -> None:
    inner = FastAPI(openapi_url=None, dependencies=[Depends(paid("daily_report"))])
    inner.add_api_route("/sold", lambda: content.mark("body"))
    app.mount("", inner)


@form(SOLD)
def on_a_mounted_app_with_a_paywall_of_its_own(app: FastAPI, content: Content) -> None:
    inner = FastAPI(openapi_url=None, dependencies=[Depends(paid("daily_report"))])
    inner.add_api_route("/sold", lambda: content.mark("body"))
    inner.add_middleware(PaywallMiddleware, paywall=paywall_of(app))
    app.mount("", inner)


@form(REQUEST, NO_PAYWALL, has_paywall=False)
def on_a_route_without_a_paywall(app: FastAPI, content: Content) -> None:
    app.add_api_route("/sold", lambda: content.mark("body"), dependencies=[Depends(paid("daily_report"))])


@form(REQUEST, NO_PAYWALL, has_paywall=False)
def on_a_mounted_app_without_a_paywall(app: FastAPI, content: Content) -> None:
    on_a_mounted_app(app, content)


# Routes that come later


@form(SOLD, after_start=depends_in_dependencies)
def later(app: FastAPI, content: Content) -> None: ...


@form(SOLD, after_start=where_a_router_is_included)
def on_a_router_later(app: FastAPI, content: Content) -> None: ...


@form(REQUEST, NOT_CALLED, after_start=FORMS["paid_itself_as_a_default"].write)
def paid_itself_later(app: FastAPI, content: Content) -> None: ...


@form(REQUEST, ABOVE, after_start=FORMS["of_starlette_above_the_route"].write)
def above_the_route_later(app: FastAPI, content: Content) -> None: ...


# What the price of a router or an application does not reach


MISSED = "is free, and its router or application is sold as 'daily_report'"


def answering(content: Content) -> Any:
    async def sold(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"))

    return sold


def sub_application(content: Content) -> FastAPI:
    sub = FastAPI()
    sub.get("/")(lambda: content.mark("body"))
    return sub


@form(START, MISSED)
def a_mount_in_an_application_that_is_sold(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))
    app.mount("/sold", sub_application(content))


@form(START, MISSED)
def a_route_of_starlette_in_an_application_that_is_sold(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))
    app.add_route("/sold", answering(content))


@form(START, MISSED)
def a_mount_in_a_router_that_is_sold(app: FastAPI, content: Content) -> None:
    router = APIRouter(dependencies=[Depends(paid("daily_report"))])
    router.mount("/sold", sub_application(content))
    app.include_router(router)


@form(START, MISSED)
def a_mount_in_a_router_that_is_sold_where_it_is_included(app: FastAPI, content: Content) -> None:
    inner, outer = APIRouter(), APIRouter()
    inner.mount("/sold", sub_application(content))
    outer.include_router(inner)
    app.include_router(outer, dependencies=[Depends(paid("daily_report"))])


@form(START, MISSED)
def a_route_of_starlette_in_a_mount_that_is_sold(app: FastAPI, content: Content) -> None:
    sub = FastAPI(dependencies=[Depends(paid("daily_report"))])
    sub.add_route("/", answering(content))
    app.mount("/sold", sub)


@form(START, MISSED)
def a_host_in_an_application_that_is_sold(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))
    app.host("seller.example", Starlette(routes=[Route("/sold", answering(content))]))


@form(START, MISSED)
def a_mount_at_a_host_in_a_router_that_is_sold(app: FastAPI, content: Content) -> None:
    sub = FastAPI(dependencies=[Depends(paid("daily_report"))])
    sub.mount("/sold", sub_application(content))
    app.host("seller.example", sub)


@form(START, MISSED)
def a_websocket_of_starlette_in_a_router_that_is_sold(app: FastAPI, content: Content) -> None:
    async def tell(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(content.mark("body"))

    router = APIRouter(dependencies=[Depends(paid("daily_report"))])
    router.add_websocket_route("/sold", tell)
    app.include_router(router)


@form(START, MISSED)
def a_route_that_was_there_before_the_price(app: FastAPI, content: Content) -> None:
    app.get("/sold")(lambda: content.mark("body"))
    app.router.dependencies.append(Depends(paid("daily_report")))


@form(START, MISSED)
def a_route_of_a_router_that_was_there_before_the_price(app: FastAPI, content: Content) -> None:
    router = APIRouter()
    router.get("/sold")(lambda: content.mark("body"))
    router.dependencies.append(Depends(paid("daily_report")))
    app.include_router(router)


@form(SOLD)
def a_mount_that_is_sold_by_its_prefix(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))
    app.user_middleware[0].kwargs["offers"] = {"/sold": "daily_report"}
    app.mount("/", Starlette(routes=[Route("/sold", answering(content))]))


@form(SOLD)
def a_router_that_is_sold_beside_a_free_mount(app: FastAPI, content: Content) -> None:
    router = APIRouter(dependencies=[Depends(paid("daily_report"))])
    router.get("/sold")(lambda: content.mark("body"))
    app.include_router(router)
    app.mount("/free", FastAPI())
    app.add_route("/health", answering(content))


@form(SOLD)
def a_router_that_is_sold_beside_a_free_host(app: FastAPI, content: Content) -> None:
    router = APIRouter(dependencies=[Depends(paid("daily_report"))])
    router.get("/sold")(lambda: content.mark("body"))
    app.host("free.example", Starlette(routes=[Route("/sold", answering(content))]))
    app.include_router(router)


@form(SOLD)
def an_application_that_is_sold_with_its_documentation(app: FastAPI, content: Content) -> None:
    app.router.dependencies.append(Depends(paid("daily_report")))
    app.openapi_url = "/openapi.json"
    app.setup()
    app.get("/sold")(lambda: content.mark("body"))


# Offers that are made with each request


@form(REQUEST, UNOPENED)
def made_in_the_handler(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    def sold() -> str:
        paid("daily_report")
        return content.mark("body")


@form(REQUEST, UNOPENED)
def of_starlette_in_the_handler(app: FastAPI, content: Content) -> None:
    @app.get("/sold")
    async def sold() -> str:
        starlette_paid("daily_report")(lambda request: None)
        return content.mark("body")


@form(SOLD)
def made_and_asked_for_by_a_dependency(app: FastAPI, content: Content) -> None:
    async def price(request: Request, response: Response) -> Any:
        return await paid("daily_report")(request, response)

    @app.get("/sold", dependencies=[Depends(price)])
    async def sold() -> str:
        return content.mark("body")


# Route classes that answer in place of the route


class Cached(APIRoute):
    """FastAPI's own pattern for what is to happen around a route."""

    def get_route_handler(self) -> Any:
        handler = super().get_route_handler()
        kept: list[Response] = []

        async def answer(request: Request) -> Response:
            if not kept:
                response: Response = await handler(request)
                if response.status_code != 200:
                    return response
                kept.append(response)
            return Response(kept[0].body, 200, dict(kept[0].headers))

        return answer


@form(REQUEST, ANSWERED)
def on_a_route_class_that_caches(app: FastAPI, content: Content) -> None:
    app.router.route_class = Cached
    depends_in_dependencies(app, content)


@form(REQUEST, ANSWERED)
def on_a_router_whose_route_class_caches(app: FastAPI, content: Content) -> None:
    router = APIRouter(route_class=Cached)
    router.add_api_route("/sold", lambda: content.mark("body"))
    app.include_router(router, dependencies=[Depends(paid("daily_report"))])


# The paywall itself


@form(START, "PaywallMiddleware is added twice, and the outer one sells nothing. Add it once")
def two_paywalls(app: FastAPI, content: Content) -> None:
    app.add_middleware(PaywallMiddleware, paywall=paywall_of(app))
    depends_in_dependencies(app, content)


@form(SOLD)
def two_paywalls_of_which_one_has_prefixes(app: FastAPI, content: Content) -> None:
    paywall = paywall_of(app)
    app.add_middleware(PaywallMiddleware, paywall=paywall, offers={"/other": "daily_report"})
    depends_in_dependencies(app, content)


@form(START, "starts with a slash")
def a_prefix_that_is_none(app: FastAPI, content: Content) -> None:
    app.user_middleware[0].kwargs["offers"] = {"sold": "daily_report"}
    depends_in_dependencies(app, content)


@pytest.mark.parametrize("name", FORMS)
def test_a_price_is_sold_or_refused_with_a_sentence(name: str) -> None:
    form = FORMS[name]
    held: list[Content] = []

    def make(paywall: Paywall, content: Content) -> Any:
        held.append(content)
        app = FastAPI(openapi_url=None)
        if form.has_paywall:
            app.add_middleware(PaywallMiddleware, paywall=paywall)
        form.write(app, content)
        return app

    def after_start(app: Any) -> None:
        if form.after_start is not None:
            form.after_start(app, held[0])

    trial = run_trial(make, after_start=after_start)
    figures.count("ways to write a price", trial.leaks, max(trial.tries, 1))
    assert trial.leaks == []
    assert (trial.outcome, form.said in trial.said) == (form.outcome, True), trial


@pytest.mark.parametrize("kind", [Starlette, Router])
def test_behind_the_asgi_middleware_a_mistake_is_found_with_the_first_request(kind: Any) -> None:
    """It knows no framework, and asks whatever routers are behind it."""

    def make(paywall: Paywall, content: Content) -> Any:
        async def sold(request: Request) -> Response:
            return PlainTextResponse(content.mark("body"))

        routes = [Route("/sold", sold)]
        faregate.starlette.paid("daily_report")(sold)
        return ASGIMiddleware(kind(routes=routes), paywall)

    trial = run_trial(make)
    figures.count("ways to write a price", trial.leaks, trial.tries)
    assert (trial.leaks, trial.outcome, ABOVE in trial.said) == ([], REQUEST, True)


def test_a_middleware_in_a_list_is_the_same() -> None:
    def make(paywall: Paywall, content: Content) -> Any:
        twice = [Middleware(PaywallMiddleware, paywall=paywall)] * 2
        return Starlette(middleware=twice)

    assert run_trial(make).outcome == START
