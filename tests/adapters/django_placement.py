"""Places for a price in Django."""

import asyncio
import io
from typing import Any

from tests import django_site

django_site.ready()
from django.core.management import CommandError, call_command  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402

from faregate.django.conf import get_config  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from faregate.merchant import wire  # noqa: E402
from faregate.merchant.models import TransactionQuery  # noqa: E402
from tests.support.command_words import ask_for_text  # noqa: E402

CONTENT = b"paid-content-4711"
RUNS: list[str] = []


class Site:
    """A project in this process, and whoever asks it."""

    def __init__(self, awaiting: bool) -> None:
        self.client: Any = (AsyncClient if awaiting else Client)(raise_request_exception=False)
        self.awaiting = awaiting

    def ask(self, place: str = "/sold", method: str = "GET", **headers: str) -> Any:
        self.client.cookies.clear()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.generic(method, place, headers=named)
        return asyncio.run(answer) if self.awaiting else answer

    def buy(self, place: str = "/sold", method: str = "GET", **headers: str) -> Any:
        unpaid = self.ask(place, method, **headers)
        assert CONTENT not in unpaid.content
        if "PAYMENT-REQUIRED" not in unpaid.headers:
            return unpaid
        proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
        return self.ask(place, method, PAYMENT_SIGNATURE=proof, **headers)

    @property
    def statuses(self) -> list[str]:
        found = get_config().paywall.call(wire.list_transactions(TransactionQuery())).items
        return [str(one.status) for one in found]


def told(command: str, *arguments: str) -> tuple[bool, str]:
    """Whether a command ends well, and what it says."""
    out = io.StringIO()
    try:
        call_command(*ask_for_text([command, *arguments]), stdout=out)
    except SystemExit:
        return False, out.getvalue()
    except CommandError as error:
        return False, str(error)
    return True, out.getvalue()


def view(request: HttpRequest, **_: Any) -> HttpResponse:
    RUNS.append("ran")
    return HttpResponse(CONTENT)


def fresh(awaiting: bool = False) -> Any:
    """A view of its own for each place: a function that is sold is not given away elsewhere."""
    if awaiting:

        async def afunction(request: HttpRequest, **_: Any) -> HttpResponse:
            return view(request)

        return afunction

    def function(request: HttpRequest, **_: Any) -> HttpResponse:
        return view(request)

    return function
