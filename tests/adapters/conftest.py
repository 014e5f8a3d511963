"""A seller, its service and its payer, all real servers, for each adapter."""

import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from faregate.emulator import TEST_KEY, Wallet
from faregate.paywall import Paywall
from tests.adapters.sellers import SHOPS, HandlerResult
from tests.servers.http import serving
from tests.support.faulty_service import FaultyService


@dataclass
class Seller:
    """The seller's server, the service behind it, and a payer's HTTP client."""

    service: FaultyService
    work: HandlerResult
    paywall: Paywall
    http: httpx.Client
    wallet: Wallet
    url: str

    def get(self, path: str, proof: str | None = None, **options: Any) -> httpx.Response:
        headers = {} if proof is None else {"PAYMENT-SIGNATURE": proof}
        return self.http.request(options.pop("method", "GET"), path, headers=headers, **options)

    def proof_for(self, path: str, method: str = "GET") -> str:
        """A payment signed for what the shop asks on this path."""
        unpaid = self.get(path, method=method)
        assert unpaid.status_code == 402, unpaid.text
        return self.wallet.pay(unpaid.headers["payment-required"])

    def statuses(self) -> dict[str, str]:
        """Every transaction the service knows, as the seller's client reads it."""
        with httpx.Client(headers={"authorization": f"Bearer {TEST_KEY}"}) as client:
            items = client.get(f"{self.url_of_service}/merchant/v1/transactions").json()["items"]
        return {item["id"]: item["status"] for item in items}

    @property
    def url_of_service(self) -> str:
        return self.paywall.settings.base_url


class Switch:
    """An ASGI app that is another one for each test: a server is slow to start and stop."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number of attempts, closer together."""
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.02, 0.05))


@pytest.fixture
def clean_site(caplog: pytest.LogCaptureFixture) -> None:
    """Forget the runs of Django's views, and what Django has cached."""
    from django.core.cache import cache

    from tests.adapters.django_placement import RUNS

    caplog.set_level(logging.ERROR)
    RUNS.clear()
    cache.clear()


@pytest.fixture
def no_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


@pytest.fixture(scope="session", name="switch")
def _switch() -> Generator[tuple[Switch, str]]:
    switch = Switch()
    with serving(switch, lifespan="off") as url:
        yield switch, url


@pytest.fixture(params=SHOPS)
def seller(request: pytest.FixtureRequest, switch: tuple[Switch, str]) -> Generator[Seller]:
    shop, url = switch
    service, work = FaultyService(), HandlerResult()
    with service.serving() as service_url, httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        paywall = Paywall(
            api_key=TEST_KEY,
            base_url=service_url,
            public_url="https://seller.example",
            timeout=30,  # a busy machine may be slow
            environ={},
            settle_wait=0,
            transport=getattr(request.module, "TRANSPORT", None),
        )
        shop.app = SHOPS[request.param](paywall, work)
        yield Seller(service, work, paywall, http, Wallet(), url)
