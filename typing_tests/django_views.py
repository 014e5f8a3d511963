"""What type checkers make of the Django adapter. Not run: read by mypy and pyright in their strict modes."""

from typing import assert_type

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from faregate.django import Payment, PaywallMiddleware, get_payment, paid, paid_include


@paid("daily_report", asset="USDC", max_work_seconds=20)
def plain(request: HttpRequest, name: str) -> HttpResponse:
    assert_type(get_payment(request), Payment)
    get_payment(request).report(input_tokens=3)
    return HttpResponse(name)


@paid("daily_report")
async def awaiting(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


@method_decorator(paid("daily_report"), name="dispatch")
class Report(View):
    @paid("daily_report")
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


def uses(request: HttpRequest) -> None:
    """The decorators keep what they decorate."""
    assert_type(plain(request, "x"), HttpResponse)
    plain(request, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    paid("daily_report", assets="USDC")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    PaywallMiddleware(lambda request: HttpResponse())


urlpatterns = [
    path("plain/<str:name>", plain),
    path("awaiting", awaiting),
    path("class", Report.as_view()),
    path("included/", paid_include("daily_report", "shop.urls")),
]
