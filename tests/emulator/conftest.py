"""One real server for all tests; behind it a fresh emulator with a still clock for each of them."""

from collections.abc import Iterator

import httpx
import pytest

from faregate.core.models import Response, WireRequest
from faregate.emulator import Delivery, Emulator, ManualClock
from faregate.emulator.server import serve
from tests.merchant.openapi.conformance import assert_conforms

from .seller import ApiClient


class Switch(Emulator):
    """Answers with whichever emulator is plugged in."""

    plugged: Emulator | None = None

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[WireRequest, Response]] = []

    def plug(self, emulator: Emulator) -> None:
        self.plugged = emulator

    def deliver(self, request: WireRequest) -> Delivery:
        assert self.plugged is not None
        delivery = self.plugged.deliver(request)
        self.told.append((request, delivery.response))
        return delivery


@pytest.fixture(scope="session")
def switch() -> Switch:
    return Switch()


@pytest.fixture(scope="session")
def http(switch: Switch) -> Iterator[httpx.Client]:
    with serve(switch) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator(clock=clock, allow_live=True)


@pytest.fixture
def conforming(request: pytest.FixtureRequest) -> bool:
    """False where answers are broken on purpose: in the tests of faults."""
    return "test_faults" not in request.module.__name__


@pytest.fixture
def api(
    http: httpx.Client, switch: Switch, emulator: Emulator, clock: ManualClock, conforming: bool
) -> Iterator[ApiClient]:
    """Whatever the emulator answers in a test is an answer that the service's description names."""
    switch.plug(emulator)
    switch.told.clear()
    yield ApiClient(http, emulator, clock, switch.plug)
    for request, response in switch.told if conforming else ():
        assert_conforms(request, response)
