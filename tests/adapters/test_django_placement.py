"""Every place at which a price can be put in Django: the view is sold, or refused with a sentence."""

import functools
import io
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import django_site

django_site.ready()

import rest_framework.decorators as rest  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.auth.decorators import login_required, permission_required  # noqa: E402
from django.contrib.auth.mixins import LoginRequiredMixin  # noqa: E402
from django.contrib.auth.models import AnonymousUser, User  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connections, transaction  # noqa: E402
from django.http import FileResponse, HttpRequest, HttpResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from django.views.decorators.cache import cache_page, never_cache  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from django.views.decorators.gzip import gzip_page  # noqa: E402
from django.views.decorators.http import etag, require_GET  # noqa: E402
from django.views.decorators.vary import vary_on_cookie  # noqa: E402
from django.views.static import serve  # noqa: E402
from ninja import NinjaAPI, Router  # noqa: E402
from ninja.decorators import decorate_view  # noqa: E402
from rest_framework.response import Response as RestResponse  # noqa: E402
from rest_framework.routers import SimpleRouter  # noqa: E402
from rest_framework.views import APIView  # noqa: E402
from rest_framework.viewsets import ViewSet  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from tests.adapters.decorators import with_wraps, without_wraps  # noqa: E402
from tests.adapters.django_placement import CONTENT, RUNS, Site, fresh, told, view  # noqa: E402
from tests.adapters.django_views import PAYWALL, project  # noqa: E402
from tests.support.products import take_part  # noqa: E402

HERE = __name__
USERS = f"{HERE}.Users"
SOLD = paid("daily_report")
FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
CONDITIONAL = "django.middleware.http.ConditionalGetMiddleware"

Decorator = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _clean(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    RUNS.clear()
    cache.clear()


class Users:
    """Who asks is said by a header."""

    sync_capable = async_capable = True

    def __new__(cls, get_response: Any) -> Any:
        from asgiref.sync import iscoroutinefunction, markcoroutinefunction

        def known(request: Any) -> Any:
            user = User(username="member") if "X-User" in request.headers else AnonymousUser()
            request.user = user

            async def auser() -> Any:
                return user

            request.auser = auser
            return get_response(request)

        return markcoroutinefunction(known) if iscoroutinefunction(get_response) else known


@contextmanager
def site(*routes: Any, awaiting: bool = False, **more: Any) -> Generator[Site]:
    more.setdefault("MIDDLEWARE", [USERS, PAYWALL])
    with project(*routes, **more):
        yield Site(awaiting)


def is_sold(site: Site, place: str = "/sold", method: str = "GET") -> bool:
    """402 to strangers before and after somebody has paid, and the content to each who pays."""
    for _ in range(2):
        bought = site.buy(place, method, X_User="member")
        assert (bought.status_code, CONTENT in bought.content) == (200, True), (place, bought.content)
        assert "PAYMENT-RESPONSE" in bought.headers
        for stranger in ({}, {"X_User": "member"}):
            answer = site.ask(place, method, **stranger)
            assert CONTENT not in answer.content
        assert "PAYMENT-REQUIRED" in answer.headers
    return True


def is_refused(site: Site, sentence: str, log: str, place: str = "/sold", method: str = "GET") -> bool:
    """An error on the first request, and told by the check and by both commands."""
    answer = site.buy(place, method, X_User="member")
    assert (answer.status_code, CONTENT in answer.content, RUNS) == (500, False, [])
    assert sentence in log
    found = [one for one in checks.run_checks() if one.id == "faregate.E008"]
    assert sentence in str(found)
    for command in ("faregate_routes", "faregate_check"):
        well, said = told(command)
        assert (well, sentence in said) == (False, True), (command, said)
    standing = {row.path: row.access for row in list_routes().routes}
    assert standing[place] == "refused"
    return True


async def aview(request: HttpRequest, **_: Any) -> HttpResponse:
    return view(request)


# Functions


def remembering(view: Any) -> Any:
    """A cache of a seller's own, which knows no marks."""
    remembered: dict[str, Any] = {}

    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.path not in remembered:
            remembered[request.path] = view(request, *args, **kwargs)
        return remembered[request.path]

    return inner


PRICE = "price"
DJANGOS: dict[str, Decorator] = {
    "cache": cache_page(60),
    "csrf": csrf_exempt,
    "GET": require_GET,
    "gzip": gzip_page,
    "login": login_required,
    "never cache": never_cache,
    "vary": vary_on_cookie,
}
OTHERS: dict[str, Decorator] = {
    **DJANGOS,
    "atomic": transaction.atomic,
    "no wraps": without_wraps,
    "own cache": remembering,
    "wraps": with_wraps,
}
LOGIN = "Put the login above @paid"
ANSWERED = "was answered by something above its price"


def expected(order: tuple[str, ...]) -> str:
    """What must become of a view that is decorated so, the outermost first."""
    above, below = order[: order.index(PRICE)], order[order.index(PRICE) :]
    if "login" in below:
        return LOGIN
    return ANSWERED if "own cache" in above else "sold"


def every_order(others: dict[str, Decorator]) -> Iterator[tuple[str, ...]]:
    for number in (0, 1, 2):
        for chosen in itertools.combinations(others, number):
            yield from itertools.permutations((PRICE, *chosen))


CELLS = [
    *((order, False) for order in every_order(OTHERS)),
    *((order, True) for order in every_order(DJANGOS)),
]


@pytest.mark.parametrize(
    ("order", "awaiting"),
    take_part(CELLS, lambda order, _: len(order) < 3),
    ids=["-".join((*order, *["async"][: int(one)])) for order, one in CELLS],
)
def test_every_order_of_decorators_is_sold_or_refused(
    order: tuple[str, ...], awaiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    known = {**OTHERS, PRICE: SOLD}

    def decorated() -> Any:
        return functools.reduce(lambda made, name: known[name](made), reversed(order), fresh(awaiting))

    if expected(order) == LOGIN:
        with pytest.raises(ConfigurationError, match=LOGIN):
            decorated()
        return
    with site(path("sold", decorated()), awaiting=awaiting) as here:
        if expected(order) == "sold":
            assert is_sold(here)
            assert set(here.statuses) == {"succeeded"}
            return
        answers = [here.buy(X_User="member") for _ in range(3)]
        assert [one.status_code for one in answers[1:]] == [500, 500]
        assert CONTENT not in answers[1].content + answers[2].content
        assert ANSWERED in caplog.text


# Class-based views


def classy(**more: Any) -> Any:
    return type("Classy", (View,), {"get": lambda self, request: view(request), **more})


METHODS = {
    "dispatch": True,
    "get": True,
    "setup": False,
    "http_method_not_allowed": False,
    "_allowed_methods": False,
}


@pytest.mark.parametrize("name", METHODS)
def test_a_price_on_each_method_of_a_class(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", method_decorator(SOLD, name=name)(classy()).as_view())) as here:
        if METHODS[name]:
            assert is_sold(here)
        else:
            assert is_refused(here, "put it on dispatch, or on get", caplog.text or refusal(here, caplog))


def refusal(here: Site, caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of the first request."""
    here.ask()
    return caplog.text


def test_a_class_whose_attributes_are_made_late_is_left_alone() -> None:
    class Late:
        def __get__(self, _instance: Any, _owner: Any) -> Any:
            raise ValueError("not now")

    with site(path("free", classy(late=Late()).as_view()), path("sold", SOLD(fresh()))) as here:
        assert here.ask("/free").content == CONTENT
        assert is_sold(here)


@pytest.mark.parametrize("name", ["get", "dispatch"])
@pytest.mark.parametrize("other", ["cache", "csrf", "GET", "gzip", "never cache", "vary", "atomic"])
@pytest.mark.parametrize("is_above", [True, False])
def test_a_price_among_the_decorators_of_a_method(name: str, other: str, is_above: bool) -> None:
    decorators = [OTHERS[other], SOLD] if is_above else [SOLD, OTHERS[other]]
    one_by_one: Any = classy()
    for decorator in reversed(decorators):
        one_by_one = method_decorator(decorator, name=name)(one_by_one)
    listed = method_decorator(decorators, name=name)(classy())
    around = functools.reduce(lambda made, one: one(made), reversed(decorators), classy().as_view())
    routes = [path("one", one_by_one.as_view()), path("listed", listed.as_view()), path("around", around)]
    with site(*routes) as here:
        assert is_sold(here, "/one")
        assert is_sold(here, "/listed")
        assert is_sold(here, "/around")


class Priced(View):
    @method_decorator(SOLD)
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        return view(request)


def logins_below() -> dict[str, Callable[[], Any]]:
    dispatch = functools.partial(method_decorator, name="dispatch")
    get = functools.partial(method_decorator, name="get")
    mixed: Any = type("Mixed", (LoginRequiredMixin, classy()), {})
    behind: Any = type("Behind", (Priced, LoginRequiredMixin), {})
    return {
        "list": lambda: dispatch([SOLD, login_required])(classy()).as_view(),
        "one by one": lambda: dispatch(SOLD)(dispatch(login_required)(classy())).as_view(),
        "on a method": lambda: get([SOLD, login_required])(classy()).as_view(),
        "the price on the class, the login on a method": (
            lambda: dispatch(SOLD)(get(login_required)(classy())).as_view()
        ),
        "a mixin": lambda: dispatch(SOLD)(mixed).as_view(),
        "a mixin behind the price": behind.as_view,
        "around a class with a mixin": lambda: SOLD(mixed.as_view()),
        "permission": lambda: dispatch([SOLD, permission_required("x")])(classy()).as_view(),
    }


@pytest.mark.parametrize("kind", logins_below())
def test_a_login_below_the_price_of_a_class_is_refused(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", logins_below()[kind]())) as here:
        assert here.ask().status_code == 500
        assert is_refused(here, LOGIN, caplog.text)


def logins_above() -> dict[str, Any]:
    dispatch = functools.partial(method_decorator, name="dispatch")
    get = functools.partial(method_decorator, name="get")
    return {
        "list": dispatch([login_required, SOLD])(classy()),
        "one by one": dispatch(login_required)(dispatch(SOLD)(classy())),
        "on a method": get([login_required, SOLD])(classy()),
        "the login on the class": dispatch(login_required)(get(SOLD)(classy())),
        "a mixin": type("Mixed", (LoginRequiredMixin, get(SOLD)(classy())), {}),
        "a mixin before the price": type("Before", (LoginRequiredMixin, Priced), {}),
    }


@pytest.mark.parametrize("kind", logins_above())
def test_a_login_above_the_price_of_a_class_comes_first(kind: str) -> None:
    with site(path("sold", logins_above()[kind].as_view())) as here:
        assert here.ask().status_code == 302
        assert is_sold(here)
        assert [one for one in checks.run_checks() if str(one.id).startswith("faregate")] == []


# REST framework


def actions(order: tuple[str, ...]) -> Any:
    known: dict[str, Decorator] = {"action": rest.action(detail=False), PRICE: SOLD, "cache": wrapped_cache}

    def reports(self: Any, request: Any) -> RestResponse:
        return RestResponse(view(request).content.decode())

    made = functools.reduce(lambda made, name: known[name](made), reversed(order), reports)
    more = {"authentication_classes": (), "reports": made}
    return type("Reports", (ViewSet,), more)


wrapped_cache = method_decorator(cache_page(60))


@pytest.mark.parametrize("order", list(itertools.permutations(("action", PRICE, "cache"))), ids="-".join)
def test_every_order_on_an_action_is_sold(order: tuple[str, ...]) -> None:
    router = SimpleRouter()
    router.register("set", actions(order), basename="set")
    with site(path("", include(router.urls))) as here:
        assert is_sold(here, "/set/reports/")
        standing = {row.path: row.access for row in list_routes().routes}
        assert "paid" in standing.values()


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("api_view", PRICE, "cache", "no authentication"))), ids="-".join
)
def test_every_order_on_an_api_view_is_sold_or_an_error(order: tuple[str, ...]) -> None:
    def reports(request: Any) -> RestResponse:
        return RestResponse(view(request).content.decode())

    def cached(made: Any) -> Any:
        # Django's decorators take Django's own request, as above `api_view`.
        return cache_page(60)(made) if hasattr(made, "cls") else made

    known: dict[str, Decorator] = {
        "api_view": rest.api_view(["GET"]),
        PRICE: SOLD,
        "cache": cached,
        "no authentication": rest.authentication_classes([]),
    }

    def decorated() -> Any:
        return functools.reduce(lambda made, name: known[name](made), reversed(order), reports)

    if order.index("no authentication") < order.index("api_view"):
        with pytest.raises(TypeError, match="api_view"):  # REST framework's own sentence
            decorated()
        return
    with site(path("sold", decorated())) as here:
        assert is_sold(here)


def test_a_price_on_what_a_rest_view_does_before_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    class Kind(APIView):
        authentication_classes = ()

        @SOLD
        def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
            super().initial(request, *args, **kwargs)

        def get(self, request: Any) -> RestResponse:
            return RestResponse(view(request).content.decode())

    with site(path("sold", Kind.as_view())) as here:
        here.ask()
        assert is_refused(here, "put it on dispatch, or on get", caplog.text)


# django-ninja


def ninja(*decorators: Decorator, whole: Decorator | None = None, mode: Any = "operation") -> Any:
    api = NinjaAPI(urls_namespace=f"placement-{len(NAMES)}", docs_url=None, openapi_url=None)
    NAMES.append("")
    router = Router()

    def operation(request: HttpRequest) -> str:
        return view(request).content.decode()

    made = functools.reduce(lambda made, one: one(made), reversed(decorators), operation)
    router.get("/sold")(made)
    if whole is not None:
        router.add_decorator(whole, mode)
    api.add_router("", router)
    return path("", api.urls)


NAMES: list[str] = []


def test_a_price_in_ninja_s_own_ways_is_sold() -> None:
    for route in (
        ninja(SOLD),
        ninja(decorate_view(SOLD)),
        ninja(decorate_view(cache_page(60)), SOLD),
        ninja(SOLD, decorate_view(cache_page(60))),
        ninja(decorate_view(cache_page(60), SOLD)),
        ninja(decorate_view(SOLD, cache_page(60))),
        ninja(whole=SOLD, mode="view"),
    ):
        cache.clear()
        with site(route) as here:
            assert is_sold(here)
            assert [row.access for row in list_routes().routes if row.path == "/sold"] == ["paid"]


@pytest.mark.parametrize("awaiting", [False, True])
def test_the_request_chooses_what_a_whole_urlconf_is_sold_as(awaiting: bool) -> None:
    """Also with a function of the other kind than the view is."""

    def choose(request: HttpRequest) -> str:
        return "daily_report" if request.method == "GET" else "nothing"

    async def choose_async(request: HttpRequest) -> str:
        return choose(request)

    inside = [path("sold", fresh(awaiting))]
    for chooser in (choose, choose_async):
        route = path("api/", paid_include(chooser, inside, among=("daily_report", "text_summary")))
        with site(route, awaiting=awaiting) as here:
            assert is_sold(here, "/api/sold")
            refused = here.ask("/api/sold", "POST")
            assert (refused.status_code, CONTENT in refused.content) == (500, False)


def test_ninja_s_urls_are_sold_as_a_whole() -> None:
    api = NinjaAPI(urls_namespace="whole", docs_url=None, openapi_url=None)
    api.get("/sold")(lambda request: view(request).content.decode())
    with site(path("api/", paid_include("daily_report", api.urls))) as here:
        assert is_sold(here, "/api/sold")


def test_a_price_for_the_operations_of_a_router_says_how_it_is_put() -> None:
    with pytest.raises(ConfigurationError, match="mode='view'"):
        ninja(whole=SOLD)


@pytest.mark.parametrize("decorate", [with_wraps, without_wraps])
def test_a_price_above_ninja_s_router_fails_the_import(decorate: Decorator) -> None:
    def operation(request: HttpRequest) -> str:
        return "never"

    routed: Any = NinjaAPI(urls_namespace=f"above-{decorate.__name__}").get("/x")(operation)
    with pytest.raises(ConfigurationError, match=r"@api\.get above @paid"):
        SOLD(decorate(routed))


# What is written by mistake


def test_without_parentheses_it_fails_the_import() -> None:
    for mistaken in (lambda: paid(fresh()), lambda: method_decorator(paid, name="get")(classy())):
        with pytest.raises(ConfigurationError, match="with parentheses"):
            mistaken()


@pytest.mark.parametrize(
    ("mistaken", "sentence"),
    [
        (lambda: SOLD(include([path("x", fresh())])), "paid_include"),  # type: ignore[type-var]
        (lambda: SOLD(None), "decorates a view"),  # type: ignore[type-var]
        (lambda: SOLD(classy()), "method_decorator"),
        (lambda: SOLD(classy().as_view), "Call as_view"),
        (lambda: paid_include("daily_report", fresh()), "For one view, use paid"),
        (lambda: paid_include([path("x", fresh())], "daily_report"), "paid_include"),  # type: ignore[call-overload]
        (lambda: paid_include("daily_report", [path("x", login_required(fresh()))]), LOGIN),
    ],
)
def test_what_cannot_be_sold_fails_the_import(mistaken: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        mistaken()


@pytest.mark.parametrize("decorate", [lambda made: made, with_wraps, without_wraps, cache_page(60)])
def test_a_view_that_is_sold_is_given_away_on_no_other_route(
    decorate: Decorator, caplog: pytest.LogCaptureFixture
) -> None:
    function = fresh()
    for sold in (
        path("a", SOLD(with_wraps(function))),
        path("a/", paid_include("daily_report", [path("", function)])),
    ):
        with site(sold, path("sold", decorate(function))) as here:
            here.ask()
            assert is_refused(here, "is sold on one route and free on another", caplog.text)


def test_one_function_may_serve_two_folders_and_sell_one(tmp_path: Path) -> None:
    for name in ("sold", "free"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(CONTENT)
    routes = [path(f"{name}/<path:path>", SOLD(serve) if name == "sold" else serve,
                   {"document_root": str(tmp_path / name)}) for name in ("sold", "free")]  # fmt: skip
    with site(*routes) as here:
        assert is_sold(here, "/sold/file")
        assert b"".join(here.ask("/free/file").streaming_content) == CONTENT


def test_the_middleware_twice_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=[PAYWALL, PAYWALL]) as here:
        answer = here.ask()
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert "MIDDLEWARE twice" in caplog.text
        assert "twice" in told("faregate_check")[1]


@pytest.mark.parametrize(
    ("middleware", "sentence"),
    [
        ([], "not in MIDDLEWARE"),
        ([PAYWALL, CONDITIONAL], "comes after the paywall"),
        ([PAYWALL, "django.contrib.sessions.middleware.SessionMiddleware"], "comes after the paywall"),
    ],
)
def test_a_paywall_in_the_wrong_place_is_told(middleware: list[str], sentence: str) -> None:
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=middleware):
        assert sentence in str(checks.run_checks())
        for command in ("faregate_routes", "faregate_check"):
            assert told(command)[0] is False
            assert sentence in told(command)[1]


# Transactions


def test_what_cannot_be_sold_in_a_transaction_is_told_before_a_payer_finds_out() -> None:
    routes = [
        path("outermost", SOLD(fresh())),
        path("deeper", login_required(SOLD(fresh()))),
        path("outside", transaction.non_atomic_requests(login_required(SOLD(fresh())))),
        path("free", fresh()),
        path("around", transaction.atomic(SOLD(fresh()))),
    ]
    journal = {"JOURNAL": "django:"}

    def named() -> list[str]:
        errors = [one.msg for one in checks.run_checks() if one.id == "faregate.E008"]
        assert all(one in told("faregate_check")[1] for one in errors)
        return [row.path for row in list_routes().routes if row.access == "refused"]

    connections.settings["default"]["ATOMIC_REQUESTS"] = True
    try:
        with site(*routes, FAREGATE=journal):
            assert named() == ["/deeper", "/around"]
            assert "non_atomic_requests" in told("faregate_check")[1]
        with site(*routes, FAREGATE={"JOURNAL": "memory:"}):
            assert named() == []
    finally:
        connections.settings["default"]["ATOMIC_REQUESTS"] = False
    with site(*routes, FAREGATE=journal):
        assert named() == ["/around"]


# What answers in the view's place


def test_a_validator_above_the_price_answers_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", etag(lambda *_: '"1"')(SOLD(fresh())))) as here:
        assert here.ask(If_None_Match='"1"').status_code == 500
        assert ANSWERED in caplog.text
        assert is_sold(here)


def test_what_is_withheld_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    opened = list[Any]()

    def above(view: Any) -> Any:
        def inner(_request: HttpRequest) -> FileResponse:
            opened.append((tmp_path / "file").open("rb"))
            return FileResponse(opened[-1])

        return functools.wraps(view)(inner)

    with site(path("sold", above(SOLD(fresh())))) as here:
        assert here.ask().status_code == 500
    assert [one.closed for one in opened] == [True]


class Answering:
    """Middleware that answers by itself when it is told to."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        status = request.headers.get("X-Answer")
        return HttpResponse(CONTENT, status=int(status)) if status else self.get_response(request)


def test_middleware_below_the_paywall_may_refuse_and_not_give(caplog: pytest.LogCaptureFixture) -> None:
    routes = [path("sold", SOLD(fresh())), path("free", fresh())]
    with site(*routes, MIDDLEWARE=[PAYWALL, f"{HERE}.Answering"]) as here:
        statuses = [here.ask(X_Answer=status).status_code for status in ("200", "206", "304", "402")]
        assert statuses == [500] * 4
        assert ANSWERED in caplog.text
        assert [here.ask(X_Answer=status).status_code for status in ("302", "403", "404")] == [302, 403, 404]
        assert here.ask("/free", X_Answer="200").content == CONTENT
        assert here.ask("/missing", X_Answer="200").content == CONTENT
        assert is_sold(here)


@pytest.mark.parametrize("middleware", [
    [UPDATE, FETCH, PAYWALL],
    [UPDATE, PAYWALL, FETCH],
    [PAYWALL, UPDATE, FETCH],
    [CONDITIONAL, PAYWALL],
    [PAYWALL, CONDITIONAL],
    ["django.middleware.cache.CacheMiddleware", PAYWALL],
    [PAYWALL, "django.middleware.cache.CacheMiddleware"],
])  # fmt: skip
@pytest.mark.parametrize("awaiting", [False, True])
def test_a_cache_for_the_whole_site_gives_nothing_away(middleware: list[str], awaiting: bool) -> None:
    routes = [path("sold", SOLD(fresh(awaiting))), path("ground/x", fresh(awaiting))]
    path_rules = {"OFFERS": {"/ground": "daily_report"}}
    with site(*routes, awaiting=awaiting, MIDDLEWARE=[USERS, *middleware], FAREGATE=path_rules) as here:
        assert is_sold(here)
        assert is_sold(here, "/ground/x")


def test_what_was_free_and_is_cached_is_withheld_when_it_is_sold(caplog: pytest.LogCaptureFixture) -> None:
    inside = [USERS, PAYWALL, UPDATE, FETCH]
    with site(path("sold", fresh()), MIDDLEWARE=inside) as here:
        assert here.ask().content == CONTENT
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=inside) as here:
        answer = here.ask()
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert ANSWERED in caplog.text


@pytest.mark.parametrize(
    ("said", "sold", "free"),
    [
        (None, "private, no-store", None),
        ("public, max-age=60", "private, no-store", "public, max-age=60"),
        ("private, no-store, no-transform",) * 3,
    ],
)
def test_what_a_view_says_about_caching_is_heard_where_it_may_be(
    said: str | None, sold: str, free: str | None
) -> None:
    def function(request: HttpRequest) -> HttpResponse:
        return HttpResponse(CONTENT, headers={} if said is None else {"Cache-Control": said})

    routes = [
        path("sold", SOLD(function)),
        path("free", paid("free_notes")(lambda request: function(request))),
    ]
    with site(*routes) as here:
        assert here.buy().headers.get("Cache-Control") == sold
        assert here.ask("/free").headers.get("Cache-Control") == free


# What answers before the paywall


WHITENOISE = "whitenoise.middleware.WhiteNoiseMiddleware"


def answers_told(prefix: str, middleware: list[str], **more: Any) -> list[str]:
    path_rules = {
        "REFUSE" if prefix == "/closed" else "OFFERS": [prefix]
        if prefix == "/closed"
        else {prefix: "daily_report"}
    }
    routes = [path("reports/x", fresh()), path("static/sold/x", fresh()), path("closed/x", fresh())]
    with project(*routes, MIDDLEWARE=middleware, FAREGATE=path_rules, **more):
        found = [str(one.id) for one in checks.run_checks() if str(one.id).startswith("faregate")]
        assert ("answers at" in told("faregate_routes")[1]) == ("faregate.E009" in found)
    return found


def test_what_answers_before_the_paywall_below_a_prefix_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    whitenoise: dict[str, Any] = {"STATIC_URL": "/static/", "INSTALLED_APPS": settings.INSTALLED_APPS}
    outside, inside = [WHITENOISE, PAYWALL], [PAYWALL, WHITENOISE]
    assert answers_told("/static/sold", outside, **whitenoise) == ["faregate.E009"]
    assert answers_told("/", outside, **whitenoise) == ["faregate.E009"]
    assert answers_told("/reports", outside, **whitenoise) == []
    assert answers_told("/reports", outside, **whitenoise, WHITENOISE_ROOT=str(tmp_path)) == ["faregate.E009"]
    assert answers_told("/closed", outside, **whitenoise, WHITENOISE_ROOT=str(tmp_path)) == []
    assert answers_told("/static/sold", inside, **whitenoise) == ["faregate.E007"]
    assert answers_told("/reports", [f"{HERE}.OwnNoise", PAYWALL], **whitenoise) == []
    assert answers_told("/static/sold", [f"{HERE}.OwnNoise", PAYWALL], **whitenoise) == ["faregate.E009"]


PROJECT = """
import django, sys
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.sites", "django.contrib.flatpages",
                    "faregate.django"],
    MIDDLEWARE=["django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
                "faregate.django.PaywallMiddleware"],
    FAREGATE={"BASE_URL": "emulator:", "OFFERS": {sys.argv[1]: "daily_report"} if sys.argv[1:] else {}},
    DATABASES={}, ROOT_URLCONF=(), SITE_ID=1,
)
django.setup()
from django.core import checks

print(*(one.id for one in checks.run_checks() if one.id.startswith("faregate")))
"""


@pytest.mark.parametrize(("prefix", "told"), [(["/reports"], "faregate.E009"), ([], "")])
def test_flatpages_before_the_paywall_are_an_error_where_a_prefix_is_sold(
    prefix: list[str], told: str
) -> None:
    """They answer for a 404, and the answer of a paid request may be one. In a process of its own: their
    models would stay.
    """
    command = [sys.executable, "-c", PROJECT, *prefix]
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.strip() == told


def own_noise() -> Any:
    from whitenoise.middleware import WhiteNoiseMiddleware

    return type("OwnNoise", (WhiteNoiseMiddleware,), {})


OwnNoise = own_noise()


def test_a_file_of_whitenoise_at_the_address_of_a_sold_view_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sold").mkdir()
    (tmp_path / "sold" / "today").write_bytes(CONTENT)
    (tmp_path / "robots.txt").write_text("")
    more: dict[str, Any] = {"STATIC_URL": "/static/", "WHITENOISE_ROOT": str(tmp_path)}
    for route, ids in (
        (path("sold/today", SOLD(fresh())), ["faregate.E009"]),
        (path("x", SOLD(fresh())), []),
    ):
        with site(route, MIDDLEWARE=[WHITENOISE, PAYWALL], **more) as here:
            found = [one for one in checks.run_checks() if str(one.id).startswith("faregate")]
            assert [one.id for one in found] == ids
            assert b"".join(here.ask("/sold/today").streaming_content) == CONTENT  # what it warns of


def test_files_of_whitenoise_below_the_paywall_are_sold(tmp_path: Path) -> None:
    """It is the error E007, and gives nothing away."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "x").write_bytes(CONTENT)
    more: dict[str, Any] = {"WHITENOISE_ROOT": str(tmp_path), "STATIC_URL": "/static/"}
    path_rules = {"OFFERS": {"/reports": "daily_report"}}
    with site(MIDDLEWARE=[PAYWALL, WHITENOISE], FAREGATE=path_rules, **more) as here:
        unpaid = here.ask("/reports/x")
        assert (unpaid.status_code, "PAYMENT-REQUIRED" in unpaid.headers) == (402, True)
        assert here.buy("/reports/x").content == CONTENT


# Refused prefixes


@pytest.mark.parametrize("awaiting", [False, True])
def test_what_is_refused_does_not_run(awaiting: bool) -> None:
    class Mixed(View):
        @method_decorator(SOLD)
        def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse(CONTENT)

        def post(self, request: HttpRequest) -> HttpResponse:
            return view(request)

    routes = [
        path("closed/plain", fresh(awaiting)),
        path("closed/class", classy().as_view()),
        path("closed/mixed", Mixed.as_view()),
        path("closed/sold", SOLD(fresh(awaiting))),
        path("closed/login", login_required(SOLD(fresh(awaiting)))),
    ]
    with site(*routes, awaiting=awaiting, FAREGATE={"REFUSE": ["/closed"]}) as here:
        for place in ("/closed/plain", "/closed/class", "/Closed//plain", "/closed/missing"):
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                answer = here.ask(place, method)
                assert (answer.status_code, CONTENT in answer.content) == (403, False), (place, method)
        assert here.ask("/closed/mixed", "POST").status_code == 403
        assert RUNS == []
        assert here.buy("/closed/mixed").content == CONTENT
        assert is_sold(here, "/closed/sold")
        assert is_sold(here, "/closed/login")


# Targets that are no path


@pytest.mark.parametrize("target", ["http://x/sold", "x:/sold", "ground/x"])
def test_a_target_that_is_not_a_path_is_served_to_nobody(target: str) -> None:
    routes = [path("sold", SOLD(fresh())), path("ground/x", fresh()), path("closed/x", fresh())]
    path_rules = {"OFFERS": {"/ground": "daily_report"}, "REFUSE": ["/closed"]}
    for where in (path_rules, {}):
        with site(*routes, FAREGATE=where):
            environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": target, "SERVER_NAME": "x"}
            environ |= {"SERVER_PORT": "80", "wsgi.input": io.BytesIO(), "wsgi.url_scheme": "http"}
            statuses: list[str] = []
            app: Any = get_wsgi_application()
            body = b"".join(app(environ, lambda status, _headers, told=statuses: told.append(status)))
            assert (CONTENT in body, RUNS) == (False, [])
            assert statuses[0][:3] == ("400" if where else "404")
