"""What answers an exception of a paid view of Django is no result: its payer is not charged."""

import time
from functools import wraps
from typing import Any

import pytest

from tests import django_site

django_site.ready()

import rest_framework.exceptions  # noqa: E402
import rest_framework.renderers  # noqa: E402
import rest_framework.response  # noqa: E402
import rest_framework.views  # noqa: E402
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from ninja import NinjaAPI  # noqa: E402
from ninja.errors import ValidationError  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402
from tests.adapters.django_views import PAYWALL, served  # noqa: E402

SOLD = paid("daily_report")


class Stranger(Exception):
    """Raised for a user who is not logged in."""


def redirect_strangers(get_response: Any) -> Any:
    """A middleware of the seller's, outside the paywall."""
    return Redirecting(get_response)


class Redirecting:
    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
        return HttpResponseRedirect("/login") if isinstance(error, Stranger) else None


class NotFound:
    """A module of URLs whose page for what is not found has forgotten its status."""

    def __init__(self, *patterns: Any) -> None:
        self.urlpatterns = patterns

    @staticmethod
    def handler404(_request: HttpRequest, **_named: Any) -> HttpResponse:
        return HttpResponse("Not found.")


def missing(_request: HttpRequest) -> HttpResponse:
    raise Http404


def missing_below(_request: HttpRequest) -> HttpResponse:
    raise Http404


async def amissing(_request: HttpRequest) -> HttpResponse:
    raise Http404


def strange(_request: HttpRequest) -> HttpResponse:
    raise Stranger


async def astrange(_request: HttpRequest) -> HttpResponse:
    raise Stranger


def returned(_request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect("/login")


class Rest(rest_framework.views.APIView):
    authentication_classes = ()

    def get(self, request: Any) -> Any:
        raise rest_framework.exceptions.NotAuthenticated


class RestMethod(Rest):
    @method_decorator(SOLD)
    def get(self, request: Any) -> Any:
        return super().get(request)


class RestReturning(rest_framework.views.APIView):
    authentication_classes = ()

    def get(self, request: Any) -> Any:
        return rest_framework.response.Response(status=302, headers={"Location": "/login"})


def answer_rest(_error: Exception, _context: Any) -> Any:
    return rest_framework.response.Response({"ok": False})


class Envelope(rest_framework.renderers.JSONRenderer):
    """Answers everything with 200, as some APIs do."""

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        renderer_context["response"].status_code = 200
        return super().render({"data": data}, accepted_media_type, renderer_context)


class RestEnveloped(rest_framework.views.APIView):
    authentication_classes = ()
    renderer_classes = (Envelope,)

    def get(self, request: Any, status: int) -> Any:
        return rest_framework.response.Response("No.", status=status)


class RestBelow(RestEnveloped):
    def get(self, request: Any, status: int) -> Any:
        return rest_framework.response.Response("No.", status=status)


def envelop(view: Any) -> Any:
    @wraps(view)
    def answer(request: HttpRequest, status: int) -> HttpResponse:
        return HttpResponse(view(request, status).content)

    return answer


def envelop_async(view: Any) -> Any:
    @wraps(view)
    async def answer(request: HttpRequest, status: int) -> HttpResponse:
        return HttpResponse((await view(request, status)).content)

    return answer


def returning(_request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse("No.", status=status)


async def areturning(_request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse("No.", status=status)


def refuse(view: Any) -> Any:
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response: HttpResponse = view(request)
        response.status_code = 403
        return response

    return answer


class RestRefused(rest_framework.views.APIView):
    authentication_classes = ()

    @method_decorator(SOLD)
    def get(self, request: Any) -> Any:
        return rest_framework.response.Response("result")

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response.status_code = 403
        return super().finalize_response(request, response, *args, **kwargs)


class Refusal(rest_framework.renderers.JSONRenderer):
    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        renderer_context["response"].status_code = 403
        return super().render(data, accepted_media_type, renderer_context)


class RestRefusedBelow(RestReturning):
    renderer_classes = (Refusal,)

    def get(self, request: Any) -> Any:
        return rest_framework.response.Response("result")


def make_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace=f"api-{time.monotonic_ns()}", docs_url=None, openapi_url=None)

    @api.exception_handler(ValidationError)
    @api.exception_handler(Exception)
    def answer(_request: HttpRequest, _error: Any) -> HttpResponse:
        return HttpResponseRedirect("/login")

    return api


def list_views() -> list[Any]:
    inside, outside = make_api(), make_api()

    @inside.get("/plain")
    @SOLD
    def plain(request: HttpRequest) -> str:
        raise Stranger

    @inside.get("/awaiting")
    @SOLD
    async def awaiting(request: HttpRequest) -> str:
        raise Stranger

    @outside.get("/invalid")
    def invalid(request: HttpRequest, page: int) -> int:
        return page

    @outside.get("/raising")
    async def raising(request: HttpRequest) -> str:
        raise Stranger

    return [
        path("missing", SOLD(missing)),
        path("amissing", SOLD(amissing)),
        path("strange", SOLD(strange)),
        path("astrange", SOLD(astrange)),
        path("returned", SOLD(returned)),
        path("prefix/missing", missing_below),
        path("rest", SOLD(Rest.as_view())),
        path("rest-method", RestMethod.as_view()),
        path("rest-returned", SOLD(RestReturning.as_view())),
        path("api/", inside.urls),
        path("sold/", paid_include("daily_report", outside.urls)),
    ]


RAISING = (
    *("/missing", "/amissing", "/strange", "/astrange", "/prefix/missing", "/rest", "/rest-method"),
    *("/api/plain", "/api/awaiting", "/sold/invalid", "/sold/raising"),
)
RETURNING = ("/returned", "/rest-returned")


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_an_exception_that_is_answered_is_failed_work(interface: str) -> None:
    views = list_views()
    settings: dict[str, Any] = {
        "MIDDLEWARE": [f"{__name__}.redirect_strangers", PAYWALL],
        "FAREGATE": {"OFFERS": {"/prefix": "daily_report"}},
        "REST_FRAMEWORK": {"EXCEPTION_HANDLER": f"{__name__}.answer_rest"},
        "DEBUG": False,
    }
    with served(interface, *views, **settings) as site:
        urls = NotFound(*views)
        with override_settings(ROOT_URLCONF=urls):
            answers = {place: site.buy(place) for place in (*RAISING, *RETURNING)}
        statuses = {place: answer.status_code for place, answer in answers.items()}
        charged = {place for place, answer in answers.items() if "payment-response" in answer.headers}
        assert charged == set(RETURNING)
        assert statuses == dict.fromkeys(RAISING, 500) | dict.fromkeys(RETURNING, 302)
        assert sorted(site.statuses) == ["failed"] * len(RAISING) + ["succeeded"] * len(RETURNING)


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_an_error_in_an_envelope_is_failed_work(interface: str) -> None:
    bills_404 = paid("daily_report", billable=frozenset((200, 404)))
    places = {"plain": envelop(SOLD(returning)), "async": envelop_async(SOLD(areturning))}
    places |= {"rest": SOLD(RestEnveloped.as_view()), "billed": bills_404(RestEnveloped.as_view())}
    places["prefix"] = RestBelow.as_view()
    views = (path(f"{name}/<int:status>", view) for name, view in places.items())
    with served(interface, *views, FAREGATE={"OFFERS": {"/prefix": "daily_report"}}) as site:
        for name in places:
            assert site.buy(f"/{name}/200").status_code == 200
        for name in ("plain", "async", "rest", "prefix"):
            assert [site.buy(f"/{name}/{status}").status_code for status in (404, 422, 500)] == [500] * 3
        assert site.buy("/billed/404").status_code == 200
        assert sorted(site.statuses) == ["failed"] * 12 + ["succeeded"] * 6


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_an_error_that_is_made_of_a_result_does_not_carry_it(interface: str) -> None:
    def result(_request: HttpRequest) -> HttpResponse:
        return HttpResponse("result")

    def own(_request: HttpRequest) -> HttpResponse:
        return HttpResponse("No.", status=403)

    views = [path("plain", refuse(SOLD(result))), path("rest", RestRefused.as_view())]
    views += [path("prefix/rest", RestRefusedBelow.as_view()), path("own", SOLD(own))]
    with served(interface, *views, FAREGATE={"OFFERS": {"/prefix": "daily_report"}}) as site:
        answers = [site.buy(place) for place in ("/plain", "/rest", "/prefix/rest", "/own")]
        assert [answer.status_code for answer in answers] == [403] * 4
        assert [answer.text for answer in answers] == ["", "", "", "No."]
        assert site.statuses == ["failed"] * 4
