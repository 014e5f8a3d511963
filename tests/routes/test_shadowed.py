"""A paid route that an earlier route shadows: no application starts with one, and the commands name it."""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.testclient import TestClient as FastAPIClient
from flask import Flask
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Host, Mount, Route, Router
from starlette.testclient import TestClient
from werkzeug.routing import Rule

import faregate.asgi
import faregate.fastapi
import faregate.starlette
from faregate.errors import ConfigurationError
from faregate.flask import Faregate
from faregate.routes.check import check
from faregate.routes.frameworks import inspect_app
from tests.adapters.asgi import a_paywall
from tests.adapters.django_placement import CONTENT, SOLD, fresh, run_command, site

from django.conf import settings as django_settings  # isort: skip - after the set-up of Django
from django.core import checks
from django.urls import include, path, re_path

EMULATED: Any = {"base_url": "emulator:"}
NEVER = "is never reached"
FREE = ""


@dataclass(frozen=True)
class Spec:
    """A route: its path as Starlette spells it, what it sells, and its methods."""

    path: str
    sells: str = FREE
    methods: tuple[str, ...] = ("GET",)


PAID = "daily_report"
CASES: dict[str, tuple[Sequence[Spec], str, str]] = {
    "the same path": ([Spec("/report"), Spec("/report", PAID)], "/report", "fastapi starlette flask django"),
    "a text before a path": ([Spec("/{name}"), Spec("/report", PAID)], "/report", "fastapi starlette django"),
    "anything before a path": (
        [Spec("/{name:path}"), Spec("/a/report", PAID)],
        "/a/report",
        "fastapi starlette django",
    ),
    "a text before a number": (
        [Spec("/items/{id}"), Spec("/items/{number:int}", PAID)],
        "/items/7",
        "fastapi starlette django",
    ),
    "a number before a number": (
        [Spec("/items/{id:int}"), Spec("/items/{number:int}", PAID)],
        "/items/7",
        "fastapi starlette flask django",
    ),
    "ids of one kind": (
        [Spec("/items/{id:uuid}/x"), Spec("/items/{other:uuid}/x", PAID)],
        "/items/6f1c9d1e-7b53-4a7d-8c25-7531c0ffee25/x",
        "fastapi starlette flask django",
    ),
    "another price": (
        [Spec("/report", "text_summary"), Spec("/report", PAID)],
        "/report",
        "fastapi starlette flask django",
    ),
    "one of two methods": (
        [Spec("/report", FREE, ("POST",)), Spec("/report", PAID, ("GET", "POST"))],
        "/report",
        "fastapi starlette flask",
    ),
    "another method": (
        [Spec("/report", FREE, ("POST",)), Spec("/report", PAID)],
        "/report",
        "",
    ),
    "one value before all": ([Spec("/items/special"), Spec("/items/{id}", PAID)], "/items/other", ""),
    "numbers before texts": ([Spec("/items/{id:int}"), Spec("/items/{id}", PAID)], "/items/other", ""),
    "one part before several": (
        [Spec("/items/{id}"), Spec("/items/{id:path}", PAID)],
        "/items/a/b",
        "",
    ),
    "the same price": ([Spec("/report", PAID), Spec("/report", PAID)], "/report", ""),
    "the paid one first": ([Spec("/report", PAID), Spec("/{name}")], "/report", ""),
}
FRAMEWORKS = ("fastapi", "starlette", "flask", "django")
CELLS = [
    (framework, case)
    for case in CASES
    for framework in FRAMEWORKS
    # Of one pattern Django asks one view, whatever the method.
    if not (framework == "django" and "method" in case)
]


def respell(pattern: str, words: dict[str, str]) -> str:
    return re.sub(
        r"\{(\w+)(?::(\w+))?\}", lambda found: f"<{words.get(found[2], found[2])}:{found[1]}>", pattern
    )


def endpoint(sells: str) -> Any:
    async def content(request: Request) -> Response:
        return PlainTextResponse("content")

    return faregate.starlette.paid(sells)(content) if sells else content


def make_fastapi(specs: Sequence[Spec]) -> FastAPI:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, **EMULATED)
    add_to_fastapi(app, specs)
    return app


def add_to_fastapi(app: Any, specs: Sequence[Spec]) -> None:
    for spec in specs:
        dependencies = [Depends(faregate.fastapi.paid(spec.sells))] if spec.sells else []
        app.add_api_route(spec.path, lambda: "content", methods=[*spec.methods], dependencies=dependencies)


def make_starlette(routes: Sequence[Any], **options: Any) -> Starlette:
    front = Middleware(faregate.starlette.PaywallMiddleware, **EMULATED, **options)
    return Starlette(routes=[*routes], middleware=[front])


def make_routes(specs: Sequence[Spec]) -> list[Route]:
    return [Route(spec.path, endpoint(spec.sells), methods=[*spec.methods]) for spec in specs]


def make_flask(specs: Sequence[Spec]) -> Flask:
    app = Flask("seller")
    app.testing = True
    app.config["FAREGATE_BASE_URL"] = "emulator:"
    paywall = Faregate(app)
    for number, spec in enumerate(specs):
        view: Any = lambda **_: "content"  # noqa: E731
        view = paywall.paid(spec.sells)(view) if spec.sells else view
        rule = respell(spec.path, {"None": "string", None: "string"})  # type: ignore[dict-item]
        app.add_url_rule(rule, f"view{number}", view, methods=[*spec.methods])
    return app


def make_patterns(specs: Sequence[Spec]) -> list[Any]:
    from faregate.django import paid

    return [
        path(
            respell(spec.path.removeprefix("/"), {None: "str"}),  # type: ignore[dict-item]
            paid(spec.sells)(fresh()) if spec.sells else fresh(),
        )
        for spec in specs
    ]


def ask(app: Any, asked: str) -> int:
    """The status of an answer. Raises what ends the start or the request."""
    if isinstance(app, Flask):
        return app.test_client().get(asked).status_code
    with (FastAPIClient if isinstance(app, FastAPI) else TestClient)(app) as client:
        status: int = client.get(asked).status_code
    return status


@pytest.mark.parametrize(("framework", "case"), CELLS)
def test_a_paid_route_is_reached_or_nothing_is(framework: str, case: str) -> None:
    specs, asked, shadowed = CASES[case]
    if framework == "django":
        check_django(make_patterns(specs), asked, is_shadowed=framework in shadowed)
        return
    makers: dict[str, Callable[[], Any]] = {
        "fastapi": lambda: make_fastapi(specs),
        "starlette": lambda: make_starlette(make_routes(specs)),
        "flask": lambda: make_flask(specs),
    }
    check_app(makers[framework], asked, is_shadowed=framework in shadowed)


def check_app(make: Callable[[], Any], asked: str, *, is_shadowed: bool) -> None:
    table = inspect_app(make())
    assert (NEVER in str(table.problems)) is is_shadowed, table.problems
    assert bool(check(table)) is is_shadowed
    if not is_shadowed:
        assert ask(make(), asked) == 402
        return
    with pytest.raises(ConfigurationError, match=NEVER):
        ask(make(), asked)


def check_django(patterns: list[Any], asked: str, *, is_shadowed: bool, **settings: Any) -> None:
    with site(*patterns, **settings) as here:
        found = [one for one in checks.run_checks() if NEVER in one.msg]
        assert [one.id for one in found] == (["faregate.E008"] if is_shadowed else [])
        for command in ("faregate_routes", "faregate_check"):
            well, said = run_command(command)
            assert (well, NEVER in said) == (not is_shadowed, is_shadowed), said
        if is_shadowed:
            with pytest.raises(ConfigurationError, match=NEVER):
                here.ask(asked)
        else:
            answer = here.ask(asked)
            assert (answer.status_code, CONTENT in answer.content) == (402, False)


# Starlette and FastAPI


def mounted(at: str, *routes: Any) -> Mount:
    return Mount(at, app=Router([*routes]))


SOLD_ROUTE = partial(Route, endpoint=endpoint(PAID))
FREE_ROUTE = partial(Route, endpoint=endpoint(FREE))


def sold_mount(at: str) -> Mount:
    return Mount(at, faregate.asgi.PaywallMiddleware(files, a_paywall(), offers={at: PAID}))


async def files(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("content")(scope, receive, send)


class Language(Convertor[str]):
    regex = "en|de"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("faregate_language", Language())


@pytest.mark.parametrize(
    ("routes", "asked", "is_shadowed"),
    [
        ([mounted("/a", FREE_ROUTE("/x")), mounted("/a", SOLD_ROUTE("/x"))], "/a/x", True),
        ([mounted("/a"), SOLD_ROUTE("/a/x")], "/a/x", True),
        ([Mount("/", app=files), SOLD_ROUTE("/x")], "/x", True),
        ([mounted("/a", mounted("/b", SOLD_ROUTE("/x"))), FREE_ROUTE("/a/b/x")], "/a/b/x", False),
        ([mounted("/a", FREE_ROUTE("/b/x"), mounted("/b", SOLD_ROUTE("/{id}")))], "/a/b/y", False),
        ([mounted("/a/{id}", FREE_ROUTE("/{id}")), SOLD_ROUTE("/a/{one}/{two}")], "/a/b/c", True),
        ([mounted("/a"), SOLD_ROUTE("/a")], "/a", False),
        ([Host("api.example", Router([FREE_ROUTE("/x")])), SOLD_ROUTE("/x")], "/x", False),
        ([Host("{any}", Router([FREE_ROUTE("/x")])), SOLD_ROUTE("/x")], "/x", True),
        ([FREE_ROUTE("/x"), Host("api.example:80", Router([SOLD_ROUTE("/x")]))], "/x", True),
        ([Host("testserver", Router([SOLD_ROUTE("/x")])), FREE_ROUTE("/x")], "/x", False),
        ([FREE_ROUTE("/x", methods=["HEAD"]), SOLD_ROUTE("/x")], "/x", True),
        ([FREE_ROUTE("/{a:faregate_language}"), SOLD_ROUTE("/{b:faregate_language}")], "/en", True),
        ([FREE_ROUTE("/{a:faregate_language}"), SOLD_ROUTE("/{b}")], "/other", False),
        ([FREE_ROUTE("/{a:int}"), SOLD_ROUTE("/{b:float}")], "/7.5", False),
        ([FREE_ROUTE("/{a:float}"), SOLD_ROUTE("/{b:int}")], "/7", True),
        ([FREE_ROUTE("/{a:path}"), sold_mount("/a")],
         "/a/x", True),
        ([FREE_ROUTE("/a/b"), sold_mount("/a")],
         "/a/x", False),
    ],
)  # fmt: skip
def test_mounts_hosts_and_convertors(routes: Sequence[Any], asked: str, is_shadowed: bool) -> None:
    table = faregate.starlette.list_routes(make_starlette(routes))
    assert (NEVER in str(table.mistakes)) is is_shadowed, table.mistakes
    if is_shadowed:
        with pytest.raises(ConfigurationError, match=NEVER):
            ask(make_starlette(routes), asked)
    else:
        assert ask(make_starlette(routes), asked) == 402


def test_a_prefix_that_is_sold_in_front_of_the_application_is_not_shadowed() -> None:
    app = make_starlette([FREE_ROUTE("/{name:path}"), FREE_ROUTE("/reports/x")], offers={"/reports": PAID})
    assert faregate.starlette.list_routes(app).problems == ()
    assert ask(app, "/reports/x") == 402


def test_included_routers_and_a_head_of_its_own() -> None:
    app = make_fastapi([Spec("/own", FREE, ("HEAD",)), Spec("/own", PAID)])
    assert faregate.fastapi.list_routes(app).problems == ()
    for prefix, is_shadowed in (("/a", True), ("/b", False)):
        free, sold = APIRouter(prefix="/a"), APIRouter(prefix=prefix)
        add_to_fastapi(free, [Spec("/{name}")])
        add_to_fastapi(sold, [Spec("/report", PAID)])
        app = make_fastapi([])
        app.include_router(free)
        app.include_router(sold)
        check_app(lambda app=app: app, f"{prefix}/report", is_shadowed=is_shadowed)  # type: ignore[misc]


def test_an_override_for_tests_shadows_nothing() -> None:
    price = faregate.fastapi.paid(PAID)
    app = make_fastapi([])
    app.add_api_route("/report", lambda: "content", dependencies=[Depends(price)])
    app.dependency_overrides[price] = lambda: None
    assert ask(app, "/report") == 200


def test_the_sentence_names_both_routes() -> None:
    table = inspect_app(make_starlette([FREE_ROUTE("/{name}"), SOLD_ROUTE("/report")]))
    assert table.problems == (
        "GET,HEAD /report sells 'daily_report' and is never reached: "
        "tests.routes.test_shadowed.endpoint.content (/{name}) comes first and answers in its place, without "
        "this price. Declare the paid route first, or change one of the two paths.",
    )


# Routes that are added late


def late_fastapi(add: Callable[[FastAPI], Any], **options: Any) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None]:
        add(app)
        try:
            yield
        finally:
            app.state.is_ended = True

    app = FastAPI(lifespan=lifespan, **options)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, **EMULATED)
    return app


PRICED = {"dependencies": [Depends(faregate.fastapi.paid(PAID))]}
SHADOWED = [Spec("/report"), Spec("/report", PAID)]
LATE: dict[str, tuple[dict[str, Any], Callable[[FastAPI], Any], str]] = {
    "a mount": (PRICED, lambda app: app.mount("/files", files), "is free, and its router"),
    "a route of Starlette": (
        PRICED,
        lambda app: app.router.add_route("/x", endpoint(FREE)),
        "is free, and its router",
    ),
    "a shadowed route": ({}, lambda app: add_to_fastapi(app, SHADOWED), NEVER),
    "a shadowed route in a mount": ({}, lambda app: app.mount("/a", Router(make_routes(SHADOWED))), NEVER),
}


@pytest.mark.parametrize("late", LATE)
def test_what_is_added_in_lifespan_fails_the_start(late: str) -> None:
    options, add, sentence = LATE[late]
    app = late_fastapi(add, **options)
    with pytest.raises(ConfigurationError, match=sentence), FastAPIClient(app):
        raise AssertionError("it has started")
    assert app.state.is_ended  # what the lifespan began has ended
    sent: list[Any] = []
    app = late_fastapi(add, **options)

    async def start() -> None:
        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            sent.append(message)

        with pytest.raises(ConfigurationError):
            await app({"type": "lifespan", "state": {}}, receive, send)

    anyio.run(start)
    [failed] = sent
    assert failed["type"] == "lifespan.startup.failed"
    assert failed["message"].startswith("faregate: ")
    assert sentence in failed["message"]


@pytest.mark.parametrize("late", LATE)
def test_what_is_added_while_it_runs_fails_the_next_request(late: str) -> None:
    options, add, sentence = LATE[late]
    app = late_fastapi(lambda _: None, **options)
    with FastAPIClient(app) as client:
        client.get("/anything")
        add(app)
        with pytest.raises(ConfigurationError, match=sentence):
            client.get("/files/x")


def test_routes_below_are_watched_too() -> None:
    below, included = Router(), APIRouter()
    additions: list[Callable[[], None]] = [
        lambda: below.routes.extend(make_routes(SHADOWED)),
        lambda: add_to_fastapi(included, SHADOWED),
    ]
    for add in additions:
        app = make_fastapi([])
        app.mount("/below", below)
        app.include_router(included, prefix="/included")
        with FastAPIClient(app) as client:
            assert client.get("/below/other").status_code == 404
            add()
            with pytest.raises(ConfigurationError, match=NEVER):
                client.get("/below/other")
        below.routes.clear()


def test_a_sound_route_that_is_added_late_is_sold() -> None:
    with FastAPIClient(late_fastapi(lambda app: add_to_fastapi(app, [Spec("/report", PAID)]))) as client:
        assert client.get("/report").status_code == 402


# Flask


def test_a_rule_that_is_added_to_the_map_is_looked_at() -> None:
    app = make_flask([Spec("/report", PAID), Spec("/other")])
    client = app.test_client()
    assert client.get("/report").status_code == 402
    sound = [Rule("/report/{id}", endpoint="view1"), Rule("/report", endpoint="view1", methods=["PUT"])]
    for rule in sound:
        app.url_map.add(rule)
    assert client.get("/report").status_code == 402
    app.url_map.add(Rule("/other", endpoint="view0"))
    with pytest.raises(ConfigurationError, match=NEVER):
        client.get("/report")


def test_subdomains_and_hosts_are_different_places() -> None:
    for host_matching, place in ((False, "subdomain"), (True, "host")):
        for free, is_shadowed in (("a.example", False), ("b.example", True)):
            app = Flask("seller", host_matching=host_matching, static_host="s" if host_matching else None)
            app.testing, app.config["FAREGATE_BASE_URL"] = True, "emulator:"
            paywall = Faregate(app)
            app.add_url_rule("/report", "free", lambda: "content", **{place: free})  # type: ignore[arg-type]
            sold = paywall.paid(PAID)(lambda: "content")
            app.add_url_rule("/report", "sold", sold, **{place: "b.example"})  # type: ignore[arg-type]
            assert (NEVER in str(inspect_app(app).problems)) is is_shadowed


# Django


def regex_patterns(free: str, sold: str) -> list[Any]:
    return [re_path(free, fresh()), re_path(sold, SOLD(fresh()))]


@pytest.mark.parametrize(
    ("patterns", "asked", "is_shadowed"),
    [
        (lambda: regex_patterns(r"^report$", r"^report$"), "/report", True),
        (lambda: regex_patterns(r"^(?P<name>[a-z]+)/", r"^report/(?P<id>[0-9]+)$"), "/report/7", True),
        (lambda: regex_patterns(r"^items/7$", r"^items/(\d+)$"), "/items/8", False),
        (lambda: regex_patterns(r"^report$", r"^report"), "/reports", False),
        (lambda: regex_patterns(r"^report$", r"^report(/\w+)?$"), "/report/x", False),
        (
            lambda: [
                path("a/", include([path("<name>", fresh())])),
                path("a/", include([path("report", SOLD(fresh()))])),
            ],
            "/a/report",
            True,
        ),
        (
            lambda: [
                path("a/", include([path("x", fresh())])),
                path("a/", include([path("<name>", SOLD(fresh()))])),
            ],
            "/a/y",
            False,
        ),
    ],
)
def test_regular_expressions_and_includes(
    patterns: Callable[[], list[Any]], asked: str, is_shadowed: bool
) -> None:
    check_django(patterns(), asked, is_shadowed=is_shadowed)


class OtherURLs:
    """Middleware that chooses another URLconf."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        request.urlconf = self.urls
        return self.get_response(request)

    urls: Any = None


def test_a_urlconf_that_a_request_has_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(OtherURLs, "urls", tuple(make_patterns([Spec("/report"), Spec("/report", PAID)])))
    middleware = [f"{__name__}.OtherURLs", "faregate.django.PaywallMiddleware"]
    with site(path("fine", fresh()), MIDDLEWARE=middleware) as here:
        assert OtherURLs.urls != django_settings.ROOT_URLCONF
        answer = here.ask("/report")
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert NEVER in caplog.text
