"""The views of the seller on Django."""

import time

from django.http import HttpRequest, JsonResponse
from django.urls import path

from faregate.django import get_payment, paid
from tests.crash.workers.seller import SOLD, made, note, work_seconds


def work(request: HttpRequest) -> JsonResponse:
    payment = get_payment(request)
    transaction = payment.transaction_id or ""
    note(transaction)
    time.sleep(work_seconds())
    return JsonResponse(made(transaction))


urlpatterns = [path(place.strip("/"), paid(key)(work)) for place, key in SOLD.items()]
