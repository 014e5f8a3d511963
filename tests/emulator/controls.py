"""Hands for the control plane: one served emulator, and a tenant of its own for each test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from faregate.emulator import Emulator, ManualClock, Tenants
from faregate.emulator.server import serve

from .seller import ApiClient, Json
from .services import MerchantService


@dataclass
class Controls:
    """One tenant of a served emulator, by its control plane."""

    http: httpx.Client
    tenants: Tenants
    name: str

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, f"/_emulator/tenants/{self.name}{path}", json=body)

    def get(self, path: str) -> Json:
        response = self.call("GET", path)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    @property
    def emulator(self) -> Emulator:
        return self.tenants.get_or_create(self.name)

    def api(self) -> ApiClient:
        """A seller in this tenant, over HTTP."""
        clock = self.emulator.clock
        assert isinstance(clock, ManualClock) or clock.mode == "frozen"
        return ApiClient(self.http, self.emulator, clock, _nobody, key=f"svc_test_tenant_{self.name}")  # type: ignore[arg-type]


def _nobody(service: MerchantService) -> None:
    raise AssertionError("tenants are not plugged in")


@contextmanager
def served() -> Iterator[Controls]:
    """The main tenant of an emulator behind a real server."""
    tenants = Tenants(Emulator(clock=ManualClock(), seed=1))
    with serve(tenants) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield Controls(client, tenants, "main")


def refused(response: httpx.Response, status: int, code: str) -> str:
    """The answer is exactly this error, and the emulator's; gives its message."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"code", "message"}
    assert body["code"] == code
    assert "faregate-emulator" in response.headers
    return str(body["message"])
