"""How a view of Django describes what it sells."""

from functools import partial
from typing import Any

import httpx
import pytest

from tests import django_site

django_site.ready()

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from django.views.generic import TemplateView  # noqa: E402
from ninja import NinjaAPI  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402
from tests.adapters.django_kinds import CONTENT, content  # noqa: E402
from tests.adapters.django_views import served  # noqa: E402
from tests.support.headers import decode_header  # noqa: E402


@pytest.fixture(params=["wsgi", "asgi"])
def serve(request: pytest.FixtureRequest) -> Any:
    return partial(served, request.param)


class OnMethod(View):
    """Every report."""

    @method_decorator(paid("daily_report"))
    def get(self, request: HttpRequest) -> HttpResponse:
        """Get one."""
        return content(request)

    @method_decorator(paid("daily_report"))
    def post(self, request: HttpRequest) -> HttpResponse:
        return content(request)


@method_decorator(paid("daily_report"), name="dispatch")
class OnClass(View):
    """A report of a class."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return content(request)


def documented(request: HttpRequest) -> HttpResponse:
    """The weather of one day.

    Not for payers.
    """
    return content(request)


def test_the_docstring_of_a_view_describes_what_is_sold(serve: Any) -> None:
    # The middleware makes an offer before the view, and its price makes the same one again.
    api, sold = NinjaAPI(urls_namespace="described"), paid("daily_report")
    api.get("/ninja")(sold(documented))
    own = paid("daily_report", description="")(documented)
    patterns = (
        path("view", sold(documented)),
        path("own", own),
        path("method", OnMethod.as_view()),
        path("class", OnClass.as_view()),
        path("generic", sold(TemplateView.as_view(template_name="none.html"))),
        path("api/", api.urls),
        path("included/", paid_include("daily_report", ([path("view", documented)], None, None))),
    )
    asked = ("view", "own", "method", "class", "generic", "api/ninja", "included/view")
    with serve(*patterns) as site:
        found = {one: _read_resource(site.ask(f"/{one}"))["description"] for one in asked}
        posted = _read_resource(site.ask("/method", method="POST"))
        bought = [site.buy(f"/{one}").text for one in ("view", "method", "class", "included/view")]
    assert found == {
        "view": "The weather of one day.",
        "own": "",
        "method": "Get one.",
        "class": "A report of a class.",
        "generic": "",  # how Django's own view works is not what is sold
        "api/ninja": "The weather of one day.",
        "included/view": "The weather of one day.",
    }
    assert (posted["description"], posted["mimeType"]) == ("Every report.", "application/json")
    assert bought == [CONTENT] * 4


def _read_resource(unpaid: httpx.Response) -> Any:
    return decode_header(unpaid.headers["payment-required"])["resource"]
