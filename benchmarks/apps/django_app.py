"""The seller's app on Django, under WSGI and ASGI: the paywall is one middleware for both."""

import os
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from goods import HEALTH, REPORT, read_settings
from two_calls import AsgiTwoCalls, WsgiTwoCalls

from faregate.django import paid

IS_SOLD = os.environ["BENCH_APP"] == "faregate"

settings.configure(
    SECRET_KEY="a benchmark keeps no secrets",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["faregate.django"] if IS_SOLD else [],
    MIDDLEWARE=["faregate.django.PaywallMiddleware"] if IS_SOLD else [],
    FAREGATE={name.upper(): value for name, value in read_settings().items()},
)
django.setup()


def report(_: HttpRequest) -> JsonResponse:
    return JsonResponse(REPORT)


async def report_async(_: HttpRequest) -> JsonResponse:
    return JsonResponse(REPORT)


def health(_: HttpRequest) -> JsonResponse:
    return JsonResponse(HEALTH)


view: Any = report_async if os.environ["BENCH_SERVER"] == "uvicorn" else report
urlpatterns = [path("report", paid("report")(view) if IS_SOLD else view), path("health", health)]


def build() -> Any:
    return get_asgi_application() if os.environ["BENCH_SERVER"] == "uvicorn" else get_wsgi_application()


bare = faregate = build


def by_hand() -> Any:
    wrap = AsgiTwoCalls if os.environ["BENCH_SERVER"] == "uvicorn" else WsgiTwoCalls
    return wrap(build())
