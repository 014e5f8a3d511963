"""What is sold: each view beside its price."""

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views import View

from faregate.django import get_payment, paid

NOTES = {"markets": "Calm.", "weather": "Sunny."}


@paid("daily_report")
def report(request: HttpRequest) -> JsonResponse:
    """A plain view: the result leaves when the payment is proven."""
    return JsonResponse({"report": "Sunny, with a chance of receipts."})


@method_decorator(paid("token_meter"), name="dispatch")
class Summary(View):
    """A class, and async; it reports what it measured."""

    async def get(self, request: HttpRequest) -> JsonResponse:
        words = request.GET.get("text", "").split()
        get_payment(request).report(input_tokens=len(words))
        return JsonResponse({"summary": " ".join(words[:5])})


def note(request: HttpRequest, name: str) -> HttpResponse:
    """Sold by the urlconf that includes it. A 404 is not charged."""
    if name not in NOTES:
        raise Http404("There is no such note.")
    return HttpResponse(NOTES[name], content_type="text/plain")


def health(request: HttpRequest) -> JsonResponse:
    """Not for sale."""
    return JsonResponse({"status": "ok"})
