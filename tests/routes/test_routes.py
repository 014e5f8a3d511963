"""What an app sells, as `list_routes` lists it: never better than what a request gets."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from fastapi import APIRouter, Depends, FastAPI, Security
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

import faregate.asgi
import faregate.fastapi
import faregate.starlette
from faregate.checkout.path_rules import PathRules
from faregate.cli.routes import format_as_json, format_as_text
from faregate.core.models import Offer
from faregate.emulator import Emulator
from faregate.emulator.server import serve
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from faregate.routes import RouteAccess, RouteInfo, RouteTable
from faregate.routes.check import check
from faregate.routes.frameworks import inspect_app
from faregate.routes.pricing import apply_path_rules
from faregate.starlette import PaywallMiddleware, paid
from tests.adapters.asgi import a_paywall, collect, http_scope, never

REPORT = Offer("daily_report")


@paid("daily_report")
async def report(request: Request) -> Response:
    return PlainTextResponse("paid content")


async def anything(request: Request) -> Response:
    return PlainTextResponse("free")


def another(sells: str) -> Any:
    """An endpoint that is sold, and nowhere free."""

    async def endpoint(request: Request) -> Response:
        return PlainTextResponse("paid content")

    return paid(sells)(endpoint)


async def plain(scope: Any, receive: Any, send: Any) -> None: ...


async def sockets(websocket: WebSocket) -> None: ...


def rows(inventory: RouteTable) -> list[tuple[str, str, str, str]]:
    return [(row.access, row.verbs, row.place, row.sells) for row in inventory.routes]


def of(*routes: Any, **settings: Any) -> RouteTable:
    """The inventory of a Starlette app behind its paywall."""
    layer = Middleware(PaywallMiddleware, paywall=a_paywall(), **settings)
    return faregate.starlette.list_routes(Starlette(routes=routes, middleware=[layer]))


# Starlette


def test_functions_classes_and_sockets() -> None:
    class Summary(HTTPEndpoint):
        @paid("text_summary")
        def get(self, request: Request) -> Response:
            return PlainTextResponse("paid content")

        def post(self, request: Request) -> Response:
            return PlainTextResponse("free")

    inventory = of(
        Route("/report", report),
        Route("/partial", partial(report)),
        Route("/some", report, methods=["PUT", "POST"]),
        Route("/head", report, methods=["HEAD"]),
        Route("/summary", Summary),
        Route("/one", Summary, methods=["GET"]),
        WebSocketRoute("/paid-socket", report),
        WebSocketRoute("/socket", anything),
    )
    assert rows(inventory) == [
        ("paid", "GET", "/report", "daily_report"),
        ("paid", "GET", "/partial", "daily_report"),
        ("paid", "POST,PUT", "/some", "daily_report"),
        ("paid", "HEAD", "/head", "daily_report"),
        ("paid", "GET", "/summary", "text_summary"),
        ("free", "POST", "/summary", ""),
        ("paid", "GET", "/one", "text_summary"),
        ("refused", "WEBSOCKET", "/paid-socket", "daily_report"),
        ("free", "WEBSOCKET", "/socket", ""),
    ]
    assert inventory.problems == ()
    handlers = [row.handler.removeprefix("tests.routes.test_routes.") for row in inventory.routes]
    assert handlers[:5] == [*["report"] * 4, "test_functions_classes_and_sockets.Summary"]


def test_mounts_hosts_and_routers_at_any_depth(tmp_path: Path) -> None:
    deep = Starlette(routes=[Route("/{day}", report)])
    inventory = of(
        Mount("/a", routes=[Mount("/b", app=Router([Mount("/c", app=deep)]))]),
        Host("api.example", Router([Route("/report", report)])),
        Mount("/files", app=StaticFiles(directory=tmp_path)),
        Mount("/other", app=plain),
    )
    assert rows(inventory) == [
        ("paid", "GET", "/a/b/c/{day}", "daily_report"),
        ("paid", "GET", "api.example/report", "daily_report"),
        ("free", "GET", "/files/*", ""),
        ("free", "any", "/other/*", ""),
    ]
    assert inventory.routes[2].handler == "starlette.staticfiles.StaticFiles"


def test_every_listed_standing_is_what_a_request_gets() -> None:
    """Of each paid, free and refused route the app itself is asked."""
    inner = Starlette(
        routes=[Route("/shut/x", anything), Route("/free", anything)],
        middleware=[Middleware(PaywallMiddleware, paywall=a_paywall(), refuse=["/shut"])],
    )
    app = Starlette(
        routes=[
            Route("/report", report),
            Route("/sold/x", anything),
            Route("/closed/x", anything),
            Route("/closed/sold", report),
            Mount("/sub", app=inner),
            Mount("/closed/sub", app=inner),
        ],
        middleware=[
            Middleware(
                PaywallMiddleware,
                paywall=a_paywall(public_url="https://a.example"),
                offers={"/sold": "daily_report"},
                refuse=["/closed"],
            )
        ],
    )
    inventory = faregate.starlette.list_routes(app)
    expected = {"paid": 402, "free": 200, "refused": 403}
    got: dict[str, tuple[RouteAccess, int]] = {}
    for row in inventory.routes:
        sent: list[Any] = []
        anyio.run(partial(_asked, app, row.path, sent))
        got[row.path] = (row.access, sent[0]["status"])
    assert len(got) == 8
    assert {path: status for path, (_, status) in got.items()} == {
        path: expected[standing] for path, (standing, _) in got.items()
    }
    assert inventory.problems == ()


async def _asked(app: Any, path: str, sent: list[Any]) -> None:
    await app(http_scope(path), never, collect(sent))


def test_middleware_on_a_mount_a_router_and_a_route_counts() -> None:
    layer = Middleware(PaywallMiddleware, a_paywall(), refuse=["/shut"])
    app = Starlette(
        routes=[
            Mount("/m", routes=[Route("/shut", anything)], middleware=[layer]),
            Mount("/r", app=Router([Route("/shut", anything)], middleware=[layer])),
            Route("/shut", anything, middleware=[layer]),
            Mount("/w", app=CORSMiddleware(PaywallMiddleware(plain, a_paywall(), refuse=["/w/x"]))),
        ]
    )
    assert rows(faregate.starlette.list_routes(app)) == [
        ("refused", "GET", "/m/shut", ""),
        ("refused", "GET", "/r/shut", ""),
        ("refused", "GET", "/shut", ""),
        ("refused", "any", "/w/x/*", ""),
        ("free", "any", "/w/*", ""),
    ]


def test_what_is_sold_without_a_paywall_in_front_is_a_problem() -> None:
    inner = Starlette(
        routes=[Route("/in", report)], middleware=[Middleware(PaywallMiddleware, paywall=a_paywall())]
    )
    app = Starlette(routes=[Mount("/sub", app=inner), Route("/out", report)])
    inventory = faregate.starlette.list_routes(app)
    assert inventory.problems == ("GET /out sells 'daily_report', and no PaywallMiddleware is in front.",)


def test_a_middleware_that_could_not_be_made_says_why() -> None:
    broken = PaywallMiddleware(Starlette(), a_paywall(), offers={"no-slash": "daily_report"})
    with pytest.raises(ConfigurationError, match="starts with a slash"):
        inspect_app(broken)
    listed = Starlette(middleware=[Middleware(PaywallMiddleware, offers={"no-slash": "daily_report"})])
    with pytest.raises(ConfigurationError, match="starts with a slash"):
        inspect_app(listed)


# FastAPI


def test_offers_are_found_wherever_they_are_declared() -> None:
    sold = faregate.fastapi.paid("daily_report")

    async def nested(payment: Annotated[Any, Depends(sold)]) -> None: ...

    inner = APIRouter(prefix="/inner")
    inner.add_api_route("/deep", lambda: "x", dependencies=[Depends(nested)])
    inner.add_api_route("/plain", lambda: "x")
    outer = APIRouter(prefix="/outer")
    outer.include_router(inner)
    grouped = APIRouter(dependencies=[Depends(sold)])
    grouped.add_api_route("/route", lambda: "x")
    grouped.add_websocket_route("/starlette-socket", sockets)

    @grouped.websocket("/socket")
    async def socket() -> None: ...

    late = APIRouter()
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    app.include_router(outer, prefix="/v1")
    app.include_router(grouped, prefix="/group")
    app.include_router(late, dependencies=[Depends(sold)])
    late.add_api_route("/late", lambda: "x")
    app.add_api_route("/security", lambda: "x", dependencies=[Security(sold)])
    app.add_api_route("/starlette", report, methods=["POST"])
    app.mount("/sub", Starlette(routes=[Route("/report", report)]))
    assert rows(faregate.fastapi.list_routes(app)) == [
        ("paid", "GET", "/v1/outer/inner/deep", "daily_report"),
        ("free", "GET", "/v1/outer/inner/plain", ""),
        ("paid", "GET", "/group/route", "daily_report"),
        ("free", "WEBSOCKET", "/group/starlette-socket", ""),
        ("refused", "WEBSOCKET", "/group/socket", "daily_report"),
        ("paid", "GET", "/late", "daily_report"),
        ("paid", "GET", "/security", "daily_report"),
        ("paid", "POST", "/starlette", "daily_report"),
        ("paid", "GET", "/sub/report", "daily_report"),
    ]


def test_app_wide_dependencies_mounts_in_routers_and_two_offers() -> None:
    nested = FastAPI(openapi_url=None, dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    nested.add_api_route("/one", lambda: "x")
    nested.add_api_route("/two", lambda: "x", dependencies=[Depends(faregate.fastapi.paid("text_summary"))])
    router = APIRouter()
    router.mount("/nested", nested)
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    app.include_router(router, prefix="/v1")
    inventory = faregate.fastapi.list_routes(app)
    assert rows(inventory) == [
        ("paid", "GET", "/v1/nested/one", "daily_report"),
        ("refused", "GET", "/v1/nested/two", "daily_report"),
    ]
    (mistake,) = inventory.mistakes
    assert "sells 'daily_report' and 'text_summary': no payer can buy it. Keep one offer" in mistake


def test_a_frontend_is_listed_and_can_be_sold(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("paid content")
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall(public_url="https://a.example"))
    sold = APIRouter(dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    sold.frontend("/site", directory=tmp_path)
    app.include_router(sold, prefix="/v1")
    app.frontend("/", directory=tmp_path)
    assert rows(faregate.fastapi.list_routes(app)) == [
        ("free", "GET", "/{path:path}", ""),
        ("paid", "GET", "/v1/site/{path:path}", "daily_report"),
    ]
    sent: list[Any] = []
    anyio.run(partial(_asked, app, "/v1/site/", sent))
    assert sent[0]["status"] == 402


# Prefixes


def test_a_bare_middleware_lists_its_prefixes_and_what_is_inside() -> None:
    inside = Starlette(routes=[Route("/files/{path:path}", anything), Route("/about", anything)])
    offers = {"/files/reports": "daily_report"}
    wrapped = CORSMiddleware(
        faregate.asgi.PaywallMiddleware(inside, a_paywall(), offers=offers, refuse=["/files"])
    )
    assert rows(inspect_app(wrapped)) == [
        ("paid", "GET", "/files/reports/*", "daily_report"),
        ("refused", "GET", "/files/{path:path}", ""),
        ("free", "GET", "/about", ""),
    ]
    unknown = faregate.asgi.PaywallMiddleware(plain, a_paywall(), offers=offers, refuse=["/files"])
    assert rows(inspect_app(unknown)) == [
        ("paid", "any", "/files/reports/*", "daily_report"),
        ("refused", "any", "/files/*", ""),
        ("free", "any", "/*", ""),
    ]


def stocked(pattern: str, root: str = "", **path_rules: Any) -> RouteTable:
    return apply_path_rules(
        RouteTable((RouteInfo(pattern, ("GET",), "app.view"),)), PathRules(**path_rules), root=root
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "/reports",
        "/reports/",
        "/REPORTS/{id}",
        "/reports/2026/x",
        "/{name}",
        "/rep{rest}",
        "/{path:path}",
        "/<path:rest>",
        "/re<name>",
        "/:name",
        r"/^reports/(?P<id>\d+)$",
        "/(.*)",
        "/*",
    ],
)
def test_a_route_that_can_answer_below_a_prefix_matches_it(pattern: str) -> None:
    assert stocked(pattern, refuse=["/reports"]).unmatched == ()
    assert stocked(pattern, offers={"/reports": "daily_report"}).unmatched == ()


@pytest.mark.parametrize(
    "pattern", ["/", "/report", "/reports2", "/x/reports", "/x{rest}", "/re/{x}", "/reports2/{x}"]
)
def test_one_that_cannot_does_not(pattern: str) -> None:
    inventory = stocked(pattern, refuse=["/reports"])
    assert inventory.unmatched == ("/reports",)
    assert inventory.problems == ("Nothing is below /reports: no route matches this prefix.",)
    assert stocked("/{one}", refuse=["/one/two"]).unmatched == ("/one/two",)


def test_a_catch_all_is_listed_as_each_of_its_prefixes_stands() -> None:
    inventory = stocked("/{rest:path}", offers={"/a/b": "daily_report"}, refuse=["/a", "/z"])
    assert rows(inventory) == [
        ("paid", "GET", "/a/b/*", "daily_report"),
        ("refused", "GET", "/a/*", ""),
        ("refused", "GET", "/z/*", ""),
        ("free", "GET", "/{rest:path}", ""),
    ]
    assert rows(stocked("/{tenant}/x/{id}", refuse=["/acme"])) == [
        ("refused", "GET", "/acme/x/{id}", ""),
        ("free", "GET", "/{tenant}/x/{id}", ""),
    ]


def test_a_prefix_is_read_with_and_without_where_the_app_is_mounted() -> None:
    for prefix in ("/reports", "/api/reports"):
        inventory = stocked("/api/reports/{id}", root="/api", refuse=[prefix])
        assert (inventory.routes[0].access, inventory.unmatched) == ("refused", ())
    led = stocked("/api/{rest:path}", root="/api", refuse=["/reports"])
    assert [row.path for row in led.routes] == ["/api/reports/*", "/api/{rest:path}"]


def test_a_socket_on_guarded_ground_is_refused() -> None:
    for path_rules in ({"offers": {"/": "daily_report"}}, {"refuse": ["/"]}):
        inventory = apply_path_rules(
            RouteTable((RouteInfo("/ws", ("WEBSOCKET",), "app.ws"),)), PathRules(**path_rules)
        )
        assert inventory.routes[0].access == "refused"


# Told


def test_an_app_without_routes_says_so_and_what_hangs_in_the_air() -> None:
    assert format_as_text(RouteTable(())) == "This application has no routes.\n\n0 paid, 0 free, 0 refused"
    assert format_as_text(apply_path_rules(RouteTable(()), PathRules({"/x": "daily_report"}))) == (
        "This application has no routes.\n\n0 paid, 0 free, 0 refused\n\n"
        "Nothing is below /x: no route matches this prefix."
    )


def test_the_table_and_the_json_say_the_same_in_the_same_order() -> None:
    routes = (
        RouteInfo("/b", ("GET", "POST"), "shop.b", REPORT, "paid"),
        RouteInfo("/a", (), "shop.a", host="api.example"),
    )
    inventory = apply_path_rules(RouteTable(routes, faults=("Something else.",)), PathRules(refuse=["/shut"]))
    assert format_as_text(inventory).splitlines() == [
        "ACCESS  METHODS   PATH           SELLS         HANDLER",
        "paid    GET,POST  /b             daily_report  shop.b",
        "free    any       api.example/a  -             shop.a",
        "",
        "1 paid, 1 free, 0 refused",
        "",
        "Nothing is below /shut: no route matches this prefix.",
        "Something else.",
    ]
    told = json.loads(format_as_json(inventory))
    assert told == {
        "routes": [
            {
                "access": "paid",
                "methods": ["GET", "POST"],
                "host": None,
                "path": "/b",
                "sells": "daily_report",
                "handler": "shop.b",
            },
            {
                "access": "free",
                "methods": [],
                "host": "api.example",
                "path": "/a",
                "sells": None,
                "handler": "shop.a",
            },
        ],
        "unmatched": ["/shut"],
        "faults": ["Something else."],
    }


# Asked of the service


def test_each_paywall_is_asked_for_what_it_stands_in_front_of() -> None:
    inner = Starlette(
        routes=[Route("/unknown", another("no_such_thing")), Route("/again", another("no_such_thing"))],
        middleware=[Middleware(PaywallMiddleware, paywall=a_paywall())],
    )
    app = Starlette(
        routes=[Mount("/sub", app=inner), Route("/report", report)],
        middleware=[Middleware(PaywallMiddleware, paywall=a_paywall())],
    )
    [fault] = check(faregate.starlette.list_routes(app))
    assert fault.startswith("no_such_thing: Nothing is sold as 'no_such_thing'")


def test_a_service_that_does_not_answer_or_knows_no_such_key_is_named_once() -> None:
    away = Paywall(api_key="svc_test_emulator", base_url="http://127.0.0.1:9", timeout=0.5, environ={})
    routes = [
        RouteInfo("/a", ("GET",), "shop.a", REPORT, "paid"),
        RouteInfo("/b", ("GET",), "shop.b", Offer("text_summary"), "paid"),
    ]
    [fault] = check(apply_path_rules(RouteTable(tuple(routes)), PathRules(), paywall=lambda: away))
    assert fault.startswith("The merchant service does not say what is sold: GET http://127.0.0.1:9/")
    away.close()
    with (
        serve(Emulator()) as url,
        closing(Paywall(api_key="svc_test_wrong", base_url=url, environ={})) as wrong,
    ):
        [fault] = check(apply_path_rules(RouteTable(tuple(routes)), PathRules(), paywall=lambda: wrong))
    assert fault.startswith("The merchant service does not say what is sold: 401 unauthenticated")


def test_what_nobody_was_asked_about_is_not_well() -> None:
    routes = [RouteInfo("/a", ("GET",), "shop.a", REPORT, "paid")]
    assert check(RouteTable(tuple(routes))) == [
        "daily_report was not checked: there is no paywall in front of its route."
    ]


def test_a_given_paywall_answers_for_routes_without_their_own() -> None:
    routes = [RouteInfo("/a", ("GET",), "shop.a", REPORT, "paid")]
    assert check(
        apply_path_rules(RouteTable(tuple(routes)), PathRules(refuse=["/shut"]), paywall=a_paywall)
    ) == ["Nothing is below /shut: no route matches this prefix."]
