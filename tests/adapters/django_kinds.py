"""Views of every kind that can have a price: functions, classes, REST framework, Ninja, urlconfs."""

import time
from typing import Any

from tests import django_site

django_site.ready()

import rest_framework.decorators  # noqa: E402
import rest_framework.response  # noqa: E402
import rest_framework.views  # noqa: E402
import rest_framework.viewsets  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from ninja import NinjaAPI  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402

CONTENT = "paid content"
SOLD = paid("daily_report")


def content(_request: Any, **_kwargs: Any) -> HttpResponse:
    return HttpResponse(CONTENT, content_type="text/plain")


async def acontent(_request: Any, **_kwargs: Any) -> HttpResponse:
    return HttpResponse(CONTENT, content_type="text/plain")


class Classy(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return content(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("free to post")


class AsyncClassy(View):
    async def get(self, request: HttpRequest) -> HttpResponse:
        return await acontent(request)


class PaidMethod(View):
    @method_decorator(SOLD)
    def get(self, request: HttpRequest) -> HttpResponse:
        return content(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("free to post")


class PaidAsyncMethod(View):
    @SOLD
    async def get(self, request: HttpRequest) -> HttpResponse:
        return await acontent(request)


class Rest(rest_framework.views.APIView):
    authentication_classes = ()

    @SOLD
    def get(self, request: Any) -> rest_framework.response.Response:
        assert request._request.payment is request.payment
        return rest_framework.response.Response({"result": CONTENT})


class Reports(rest_framework.viewsets.ViewSet):
    authentication_classes = ()

    @SOLD
    def list(self, request: Any) -> rest_framework.response.Response:
        return rest_framework.response.Response({"result": CONTENT})

    def create(self, request: Any) -> rest_framework.response.Response:
        return rest_framework.response.Response({"free": True})


@rest_framework.decorators.api_view(["GET"])
@rest_framework.decorators.authentication_classes([])
@SOLD
def rest_function(request: Any) -> rest_framework.response.Response:
    return rest_framework.response.Response({"result": CONTENT})


def ninja_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace=f"api-{time.monotonic_ns()}", docs_url=None, openapi_url=None)

    @api.get("/plain")
    @SOLD
    def plain(request: HttpRequest, q: str = "") -> dict[str, str]:
        return {"result": CONTENT, "q": q}

    @api.get("/awaiting")
    @SOLD
    async def awaiting(request: HttpRequest) -> dict[str, str]:
        return {"result": CONTENT}

    return api


def with_paid_dispatch(kind: Any) -> Any:
    sold: Any = method_decorator(SOLD, name="dispatch")(type(kind.__name__, (kind,), {}))
    return sold.as_view()


def every_kind() -> list[Any]:
    """Every way to put a price on something."""
    inside = [path("deep", content), path("deeper/", include([path("awaiting", acontent)]))]
    return [
        path("plain", SOLD(content)),
        path("awaiting", SOLD(acontent)),
        path("class", with_paid_dispatch(Classy)),
        path("async-class", with_paid_dispatch(AsyncClassy)),
        path("method", PaidMethod.as_view()),
        path("async-method", PaidAsyncMethod.as_view()),
        path("rest", Rest.as_view()),
        path("rest-set", Reports.as_view({"get": "list", "post": "create"})),
        path("rest-function", rest_function),
        path("ninja/", ninja_api().urls),
        path("include/", paid_include("daily_report", inside)),
    ]


KINDS = [
    "/plain",
    "/awaiting",
    "/class",
    "/async-class",
    "/method",
    "/async-method",
    "/rest",
    "/rest-set",
    "/rest-function",
    "/ninja/plain",
    "/ninja/awaiting",
    "/include/deep",
    "/include/deeper/awaiting",
]
