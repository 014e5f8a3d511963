"""Django: `@paid` on sync and async views, `paid_include`, prefixes, and its own database as a journal.

`asgi` has async views, `wsgi` plain ones; a few are of the other interface in both.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse

from tests.contract import handlers
from tests.contract.handlers import Answer, ClosableBody, Sold

DATABASE = os.environ["FAREGATE_JOURNAL"] == "django:"
AWAITING = os.environ["CONTRACT_INTERFACE"] == "asgi"
OTHER_COLOUR = {"/small", "/metered", handlers.MOUNT}
FOLDER = Path(os.environ["CONTRACT_LOG"]).parent

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="only for tests",
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["faregate.django.journal"],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.middleware.common.CommonMiddleware",
        "faregate.django.PaywallMiddleware",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": FOLDER / "django.sqlite3",
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 5},
        }
    },
    FAREGATE={"TIMEOUT": handlers.timeout(), "OFFERS": handlers.OFFERS, "REFUSE": [handlers.CLOSED]},
    LOGGING_CONFIG=None,
)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402


def endpoint(place: str) -> Any:
    def view(request: HttpRequest, **_parameters: str) -> Any:
        answer = worked(place, request)
        time.sleep(answer.seconds)
        return native(answer, answer.stream())

    async def awaiting(request: HttpRequest, **_parameters: str) -> Any:
        answer = worked(place, request)
        await asyncio.sleep(answer.seconds)
        return native(answer, streamed(answer))

    return awaiting if (place in OTHER_COLOUR) != AWAITING else view


def worked(place: str, request: HttpRequest) -> Answer:
    payment = getattr(request, "payment", None)
    return handlers.work(place, request.GET.get("what", ""), payment, request.body, request.META)


async def streamed(answer: Answer) -> AsyncIterator[bytes]:
    for chunk in answer.stream():
        yield chunk


def native(answer: Answer, chunks: Iterator[bytes] | AsyncIterator[bytes]) -> Any:
    if answer.how == "file":
        return FileResponse(handlers.FILE.open("rb"), content_type=answer.media_type)
    if answer.how == "stream":
        response: Any = StreamingHttpResponse(chunks, status=answer.status, content_type=answer.media_type)
    elif answer.place:
        response = StreamingHttpResponse(ClosableBody(answer), content_type=answer.media_type)
    else:
        response = HttpResponse(answer.body, status=answer.status, content_type=answer.media_type)
    for name, value in answer.headers:
        response[name] = value
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    return response


def sell(sold: Sold, place: str, route: str) -> Any:
    return path(route.lstrip("/"), paid(sold.sells, **sold.limits)(endpoint(place)))


def opened(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"open": True})


inner = [path(handlers.INNER.path.lstrip("/"), endpoint(handlers.MOUNT))]
urlpatterns = [
    *(sell(sold, sold.path, sold.path) for sold in handlers.SOLD),
    sell(handlers.ITEM, handlers.ITEM.path, "/items/<item>"),
    path(f"{handlers.MOUNT}/".lstrip("/"), paid_include(handlers.INNER.sells, inner)),
    *(
        path(f"{prefix}/<path:rest>".lstrip("/"), endpoint(prefix))
        for prefix in (handlers.GROUND, handlers.CLOSED)
    ),
    path("open", opened),
]

if DATABASE:
    call_command("migrate", verbosity=0)
asgi, wsgi = get_asgi_application(), get_wsgi_application()
