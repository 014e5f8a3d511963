"""The views of the seller on Django."""

import time

from django.http import HttpRequest, JsonResponse
from django.urls import path

from faregate.django import paid, payment_of
from tests.crash.workers.seller import SOLD, made, note, work_seconds


def work(request: HttpRequest) -> JsonResponse:
    payment = payment_of(request)
    transaction = payment.transaction_id or ""
    note(transaction)
    time.sleep(work_seconds())
    return JsonResponse(made(transaction))


urlpatterns = [path(place.strip("/"), paid(key)(work)) for place, key in SOLD.items()]
