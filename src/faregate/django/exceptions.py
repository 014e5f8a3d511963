"""Notice that an exception of a view was answered by something else: then there is no result.

Django tells middleware of an exception that leaves a view (`PaywallMiddleware.process_exception`). REST
framework and django-ninja answer inside the view: REST framework marks its responses.
"""

from functools import lru_cache, wraps
from typing import Any

from django.http import HttpRequest

from faregate.django.offers import list_operations
from faregate.django.requests import find_checkout


def note_answered_error(request: HttpRequest) -> None:
    """Note that an exception of this request is answered."""
    checkout = find_checkout(request)
    if checkout is not None:
        checkout.note_answered_error()
        checkout.has_called_handler = False  # what answers may be a cache


@lru_cache(maxsize=1024)
def watch_operations(view: Any) -> None:
    """Note what the API of django-ninja that has this view answers exceptions with."""
    for operation in list_operations(view):
        api = operation.api
        if _WATCHED not in vars(api.on_exception):
            api.on_exception = _watch(api.on_exception)


_WATCHED = "faregate_watched"


def _watch(answer: Any) -> Any:
    @wraps(answer)
    def watched(request: HttpRequest, error: Exception) -> Any:
        response = answer(request, error)  # raises the error if no handler is for it
        note_answered_error(request)
        return response

    vars(watched)[_WATCHED] = True
    return watched
