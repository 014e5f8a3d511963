"""Every place for a price in REST framework and django-ninja: sold, or refused with a sentence."""

import functools
import itertools
from typing import Any

import pytest

from tests import django_site

django_site.ready()

import rest_framework.decorators as rest  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views.decorators.cache import cache_page  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from ninja import NinjaAPI, Router  # noqa: E402
from ninja.decorators import decorate_view  # noqa: E402
from rest_framework import generics  # noqa: E402
from rest_framework.response import Response as RestResponse  # noqa: E402
from rest_framework.routers import DefaultRouter, SimpleRouter  # noqa: E402
from rest_framework.views import APIView  # noqa: E402
from rest_framework.viewsets import ViewSet  # noqa: E402

from faregate.django import paid_include  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from tests.adapters.decorators import with_wraps, without_wraps  # noqa: E402
from tests.adapters.django_placement import (  # noqa: E402
    CONTENT,
    RUNS,
    SOLD,
    Decorator,
    fresh,
    is_refused,
    is_sold,
    site,
    view,
)

pytestmark = pytest.mark.usefixtures("clean_site")

PRICE = "price"


# REST framework


class Everything(ViewSet):
    authentication_classes = ()

    def list(self, request: Any, **_: Any) -> RestResponse:
        return RestResponse(view(request).content.decode())

    retrieve = create = list


def sell_generic(name: str) -> Any:
    """A generic view, the price of which is on what its `get` or `post` calls."""
    kind = generics.ListCreateAPIView if name in ("list", "create") else generics.RetrieveDestroyAPIView

    def answer(self: Any, request: Any, **_: Any) -> RestResponse:
        return RestResponse(view(request).content.decode())

    return type("Generic", (kind,), {"authentication_classes": (), name: SOLD(answer)})


@pytest.mark.parametrize(
    ("name", "method", "other"),
    [("list", "GET", "POST"), ("create", "POST", "GET"), ("retrieve", "GET", "DELETE")],
)
def test_a_price_on_what_a_generic_view_calls_is_found(
    name: str, method: str, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    with site(path("sold", sell_generic(name).as_view())) as here:
        assert is_sold(here, "/sold", method)
        standing = {verb: row.access for row in list_routes().routes for verb in row.methods}
        assert (standing[method], standing[other]) == ("paid", "free")
    memo = remember(sell_generic(name).as_view())
    with site(path("sold", memo)) as here:
        here.buy("/sold", method)
        answer = here.ask("/sold", method)
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert "such as a cache, unpaid" in caplog.text


def remember(above: Any) -> Any:
    """A memo above a view that makes each answer anew of the content of a bought one."""
    kept: dict[str, bytes] = {}

    def memo(request: HttpRequest) -> Any:
        if request.method in kept:
            return HttpResponse(kept[request.method])
        response = above(request)
        if response.status_code == 200:
            kept[str(request.method)] = response.render().content
        return response

    return csrf_exempt(functools.wraps(above)(memo))


SUFFIXES = ("/set.json", "/set.json/", "/set.api", "/set/1.json", "/set/.json", "/SET.json")


@pytest.mark.parametrize("format_in_path", [True, False])
def test_a_format_after_a_prefix_is_sold_or_refused_with_it(format_in_path: bool) -> None:
    router = DefaultRouter()
    router.include_format_suffixes = format_in_path
    router.register("set", Everything, basename="set")
    route = path("", include(router.urls))
    with site(route, FAREGATE={"OFFERS": {"/set": "daily_report"}}) as here:
        for method in ("GET", "HEAD", "POST"):
            assert [here.ask(place, method).status_code for place in SUFFIXES] == [402] * len(SUFFIXES)
        assert is_sold(here, "/set.json" if format_in_path else "/set/")
        assert RUNS
        assert {row.access for row in list_routes().routes if row.path.startswith("/set")} == {"paid"}
    RUNS.clear()
    with site(route, FAREGATE={"REFUSE": ["/set"]}) as here:
        assert [here.ask(place).status_code for place in SUFFIXES] == [403] * len(SUFFIXES)
        assert RUNS == []


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
