"""Serve Django views, and pay for them."""

import io
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests import django_site

django_site.ready()
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import sync_and_async_middleware  # noqa: E402

from faregate.django import PaywallMiddleware  # noqa: E402
from faregate.django.conf import get_config  # noqa: E402
from faregate.emulator import TEST_KEY, Emulator, Wallet  # noqa: E402
from faregate.emulator.transports import EmbeddedTransport  # noqa: E402
from faregate.merchant import wire  # noqa: E402
from faregate.merchant.models import TransactionQuery  # noqa: E402
from tests.servers.http import serving, serving_wsgi  # noqa: E402

PAYWALL = "faregate.django.PaywallMiddleware"
HIDDEN = f"{__name__}.make_paywall"
COMMON = "django.middleware.common.CommonMiddleware"


@sync_and_async_middleware
def make_paywall(get_response: Any) -> Any:
    """The paywall, made by a function of the seller's own: its place in MIDDLEWARE is not checked."""
    return PaywallMiddleware(get_response)


@dataclass
class Site:
    """A project being served, the service behind it, and a payer's HTTP client."""

    interface: str
    url: str
    emulator: Emulator
    http: httpx.Client
    wallet: Wallet

    def ask(self, path: str, proof: str | None = None, method: str = "GET", **options: Any) -> httpx.Response:
        headers = options.pop("headers", {}) | ({} if proof is None else {"PAYMENT-SIGNATURE": proof})
        return self.http.request(method, path, headers=headers, **options)

    def proof(self, path: str, method: str = "GET", **options: Any) -> str:
        unpaid = self.ask(path, method=method, **options)
        assert unpaid.status_code == 402, (unpaid.status_code, unpaid.text)
        return self.wallet.pay(unpaid.headers["payment-required"])

    def buy(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        return self.ask(path, self.proof(path, method), method, **options)

    @property
    def statuses(self) -> list[str]:
        answer = self.http.get("/_statuses")
        assert answer.status_code == 200
        return list(answer.json())

    @property
    def completions(self) -> int:
        return sum(call.path.endswith("/complete") for call in self.emulator.calls())


def project(*patterns: Any, emulator: Emulator | None = None, **settings: Any) -> Any:
    """The settings of a project with these routes; `FAREGATE` is added to ours."""
    transport: Any = EmbeddedTransport(emulator or Emulator())
    said = {
        "API_KEY": TEST_KEY,
        "BASE_URL": "http://service.example",
        "PUBLIC_URL": "https://seller.example",
        "JOURNAL": "memory:",
        "TRANSPORT": transport,
        **settings.pop("FAREGATE", {}),
    }
    settings.setdefault("MIDDLEWARE", [PAYWALL])
    return override_settings(FAREGATE=said, ROOT_URLCONF=(*patterns, path("_statuses", statuses)), **settings)


def read_statuses() -> list[str]:
    """The status of each transaction."""
    found = get_config().paywall.call(wire.list_transactions(TransactionQuery())).items
    return [str(one.status) for one in found]


def statuses(_request: HttpRequest) -> HttpResponse:
    return JsonResponse(read_statuses(), safe=False)


def ask_wsgi(place: str, proof: str | None = None, **environ: Any) -> tuple[str, dict[str, str], bytes]:
    """Call the project as a WSGI server does, without a socket; return status, headers and body."""
    environ |= {"REQUEST_METHOD": "GET", "PATH_INFO": place, "SERVER_NAME": "x", "SERVER_PORT": "80"}
    environ |= {"wsgi.input": io.BytesIO(), "wsgi.url_scheme": "http"}
    environ |= {} if proof is None else {"HTTP_PAYMENT_SIGNATURE": proof}
    begun: list[tuple[str, list[tuple[str, str]]]] = []
    app: Any = get_wsgi_application()
    body = b"".join(app(environ, lambda status, headers: begun.append((status, headers))))
    [(status, headers)] = begun
    return status, {name.lower(): value for name, value in headers}, body


@contextmanager
def served(interface: str, *patterns: Any, **settings: Any) -> Generator[Site]:
    emulator = Emulator()
    with project(*patterns, emulator=emulator, **settings):
        serve: Any = (
            serving(get_asgi_application(), lifespan="off")
            if interface == "asgi"
            else serving_wsgi(get_wsgi_application())
        )
        with serve as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as http:
            yield Site(interface, url, emulator, http, Wallet())
