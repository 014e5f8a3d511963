"""One real server for all tests; behind it a fresh emulator with a still clock for each of them."""

from collections.abc import Iterator

import httpx
import pytest

from faregate.emulator import Delivery, Emulator, ManualClock
from faregate.emulator.server import serve
from faregate.model import WireRequest

from .shop import Shop


class Switch(Emulator):
    """Answers with whichever emulator is plugged in."""

    plugged: Emulator | None = None

    def plug(self, emulator: Emulator) -> None:
        self.plugged = emulator

    def deliver(self, request: WireRequest) -> Delivery:
        assert self.plugged is not None
        return self.plugged.deliver(request)


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
def shop(http: httpx.Client, switch: Switch, emulator: Emulator, clock: ManualClock) -> Shop:
    switch.plug(emulator)
    return Shop(http, emulator, clock, switch.plug)
