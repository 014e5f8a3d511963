"""Django's own page caches below a price, where a cache in front of the paywall has the same keys."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.core import checks  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.cache import caches  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views.decorators.cache import cache_page  # noqa: E402

from faregate.django import paid_include  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from tests.adapters.django_placement import (  # noqa: E402
    CONTENT,
    RUNS,
    SOLD,
    USERS,
    classy,
    fresh,
    is_sold,
    run_command,
    site,
    view,
)
from tests.adapters.django_views import PAYWALL  # noqa: E402

pytestmark = pytest.mark.usefixtures("clean_site", "empty_caches")

FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
OUTSIDE = ["django.middleware.cache.CacheMiddleware", USERS, PAYWALL]
GROUND = {"OFFERS": {"/ground": "daily_report"}}
LOCAL = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
STORES: Any = {"default": LOCAL, "same": LOCAL, "other": LOCAL | {"LOCATION": "other"}}
REFUSED = "answers with what is stored, for free"


@pytest.fixture
def empty_caches() -> Iterator[None]:
    yield
    with override_settings(CACHES=STORES):
        for name in STORES:
            caches[name].clear()


def cached(awaiting: bool = False, **options: Any) -> Any:
    return cache_page(60, **options)(fresh(awaiting))


def with_get(*decorators: Any) -> Any:
    """A class whose `get` has decorators, the outermost first."""
    return classy(get=method_decorator(decorators)(lambda self, request: view(request)))


ROUTES: dict[str, Any] = {
    "function": lambda: path("sold", SOLD(cached())),
    "async": lambda: path("sold", SOLD(cached(awaiting=True))),
    "both-sides": lambda: path("sold", cache_page(60)(SOLD(cached()))),
    "dispatch": lambda: path(
        "sold", method_decorator([SOLD, cache_page(60)], name="dispatch")(classy()).as_view()
    ),
    "method": lambda: path("sold", with_get(SOLD, cache_page(60)).as_view()),
    "method-of-a-sold-class": lambda: path(
        "sold", method_decorator(SOLD, name="dispatch")(with_get(cache_page(60))).as_view()
    ),
    "sold-in-urls": lambda: path("sold", SOLD(with_get(cache_page(60)).as_view())),
    "include": lambda: path("", paid_include("daily_report", [path("sold", cached())])),
    "prefix": lambda: path("ground/x", cached()),
    "prefix-over-a-method": lambda: path("ground/<int:day>", with_get(cache_page(60)).as_view()),
    "another-name-of-the-store": lambda: path("sold", SOLD(cached(cache="same"))),
}


@pytest.mark.parametrize("fetch", [OUTSIDE, [FETCH, USERS, PAYWALL]], ids=["whole", "fetch"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_cache_below_a_price_that_fills_the_one_outside_does_not_start(
    route: str, fetch: list[str]
) -> None:
    with site(ROUTES[route](), MIDDLEWARE=fetch, FAREGATE=GROUND, CACHES=STORES):
        for load in (get_wsgi_application, get_asgi_application):
            with pytest.raises(ConfigurationError, match=REFUSED):
                load()
        assert REFUSED in str([one for one in checks.run_checks() if one.id == "faregate.E008"])
        assert REFUSED in run_command("faregate_routes")[1]


@pytest.mark.parametrize("awaiting", [False, True])
def test_what_is_found_below_a_prefix_by_a_request_does_not_run(
    awaiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The samples of the start do not reach every value of a parameter."""
    route = path("<slug:name>/x", cached(awaiting))
    with site(route, awaiting=awaiting, MIDDLEWARE=OUTSIDE, FAREGATE=GROUND, CACHES=STORES) as here:
        assert here.buy("/ground/x").status_code == 500
        assert REFUSED in caplog.text
        assert RUNS == []
        assert here.ask("/free/x").content == CONTENT
        assert here.ask("/ground/x").status_code == 402


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize(
    ("middleware", "options"),
    [
        ([USERS, PAYWALL], {}),
        ([UPDATE, USERS, PAYWALL], {}),
        (OUTSIDE, {"key_prefix": "paid"}),
        (OUTSIDE, {"cache": "other"}),
    ],
)
def test_a_cache_of_its_own_below_a_price_is_sold(
    middleware: list[str], options: dict[str, Any], awaiting: bool
) -> None:
    routes = [
        path("sold", SOLD(cached(awaiting, **options))),
        path("ground/x", cached(awaiting, **options)),
    ]
    with site(*routes, awaiting=awaiting, MIDDLEWARE=middleware, FAREGATE=GROUND, CACHES=STORES) as here:
        assert is_sold(here)
        assert is_sold(here, "/ground/x")
        assert RUNS == ["ran"] * 2


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_project_with_a_cache_outside_starts(awaiting: bool) -> None:
    """A cache above a price, of what is free, or below the price of another method."""
    posting = with_get(cache_page(60))
    posting.post = method_decorator(SOLD)(lambda self, request: view(request))
    routes = [
        path("sold", cache_page(60)(SOLD(fresh(awaiting)))),
        path("free", cached(awaiting)),
        path("posting", posting.as_view()),
        path("ground/x", fresh(awaiting)),
        path("<slug:page>", cached(awaiting)),
    ]
    with site(*routes, awaiting=awaiting, MIDDLEWARE=OUTSIDE, FAREGATE=GROUND, CACHES=STORES) as here:
        assert is_sold(here)
        assert is_sold(here, "/ground/x")
        assert here.ask("/free").content == here.ask("/posting").content == CONTENT
        assert is_sold(here, "/posting", "POST")
        assert not [one for one in checks.run_checks() if str(one.id).startswith("faregate")]
