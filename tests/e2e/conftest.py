from collections.abc import Generator

import pytest

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.e2e.example_seller import SERVERS, Market, market
from tests.e2e.payers import PAYERS, Payer
from tests.support.chain import chain

__all__ = ["chain"]


@pytest.fixture(params=SERVERS)
def seller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[Market]:
    with market(request.param, monkeypatch) as opened:
        yield opened


@pytest.fixture
def emulator() -> Emulator:
    return Emulator()


@pytest.fixture
def environ(emulator: Emulator) -> Generator[dict[str, str]]:
    """The settings of a seller's process whose service is the emulator."""
    with serve(emulator) as service:
        yield {"FAREGATE_BASE_URL": service, "FAREGATE_API_KEY": TEST_KEY}


@pytest.fixture(params=PAYERS)
def payer(request: pytest.FixtureRequest) -> Payer:
    made: Payer = PAYERS[request.param]()
    return made
