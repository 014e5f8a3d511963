"""Places for a price in Django."""

import asyncio
import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests import django_site

django_site.ready()
from django.contrib.auth.models import AnonymousUser, User  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.management import CommandError, call_command  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402
from django.views import View  # noqa: E402

from faregate.django import paid  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from tests.adapters.django_views import PAYWALL, project  # noqa: E402
from tests.support.command_words import ask_for_text  # noqa: E402

CONTENT = b"paid-content-4711"
RUNS: list[str] = []
USERS = f"{__name__}.Users"
SOLD = paid("daily_report")
LOGIN = "Put the login above @paid"
ANSWERED = "was answered by something above its price"
Decorator = Callable[[Any], Any]


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


def run_command(command: str, *arguments: str) -> tuple[bool, str]:
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


class Users:
    """Who asks is said by a header."""

    sync_capable = async_capable = True

    def __new__(cls, get_response: Any) -> Any:
        from asgiref.sync import iscoroutinefunction, markcoroutinefunction

        def known(request: Any) -> Any:
            user = User(username="member") if "X-User" in request.headers else AnonymousUser()
            request.user = user

            async def auser() -> Any:
                return user

            request.auser = auser
            return get_response(request)

        return markcoroutinefunction(known) if iscoroutinefunction(get_response) else known


@contextmanager
def site(*routes: Any, awaiting: bool = False, **more: Any) -> Generator[Site]:
    more.setdefault("MIDDLEWARE", [USERS, PAYWALL])
    with project(*routes, **more):
        yield Site(awaiting)


def is_sold(site: Site, place: str = "/sold", method: str = "GET") -> bool:
    """402 to strangers before and after somebody has paid, and the content to each who pays."""
    for _ in range(2):
        bought = site.buy(place, method, X_User="member")
        assert (bought.status_code, CONTENT in bought.content) == (200, True), (place, bought.content)
        assert "PAYMENT-RESPONSE" in bought.headers
        for stranger in ({}, {"X_User": "member"}):
            answer = site.ask(place, method, **stranger)
            assert CONTENT not in answer.content
        assert "PAYMENT-REQUIRED" in answer.headers
    return True


def is_refused(site: Site, sentence: str, log: str, place: str = "/sold", method: str = "GET") -> bool:
    """An error on the first request, and told by the check and by both commands."""
    answer = site.buy(place, method, X_User="member")
    assert (answer.status_code, CONTENT in answer.content, RUNS) == (500, False, [])
    assert sentence in log
    found = [one for one in checks.run_checks() if one.id == "faregate.E008"]
    assert sentence in str(found)
    for command in ("faregate_routes", "faregate_check"):
        well, said = run_command(command)
        assert (well, sentence in said) == (False, True), (command, said)
    standing = {row.path: row.access for row in list_routes().routes}
    assert standing[place] == "refused"
    return True


def classy(**more: Any) -> Any:
    """A class-based view."""
    return type("Classy", (View,), {"get": lambda self, request: view(request), **more})
