"""The paywall for Django: an app, a middleware, and `@paid` on a view.

INSTALLED_APPS = [..., "faregate.django"]
MIDDLEWARE = [..., "faregate.django.PaywallMiddleware"]  # the last one
FAREGATE = {"API_KEY": ..., "BASE_URL": ...}

@paid("text_summary")
def summary(request):
    request.payment.report({"input-tokens": 3})
    ...
"""

try:
    import django as _django
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.django needs Django: pip install 'faregate[django]'", name=error.name
    ) from error
else:
    del _django

from faregate.core.reported_values import Payment
from faregate.django.conf import payment_event
from faregate.django.decorators import paid, paid_include
from faregate.django.middleware import PaywallMiddleware
from faregate.django.requests import get_payment

__all__ = ["Payment", "PaywallMiddleware", "get_payment", "paid", "paid_include", "payment_event"]
