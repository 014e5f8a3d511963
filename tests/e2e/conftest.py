from collections.abc import Generator

import pytest

from tests.e2e.example_seller import SERVERS, Market, market
from tests.e2e.payers import PAYERS, Payer


@pytest.fixture(params=SERVERS)
def seller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[Market]:
    with market(request.param, monkeypatch) as opened:
        yield opened


@pytest.fixture(params=PAYERS)
def payer(request: pytest.FixtureRequest) -> Payer:
    made: Payer = PAYERS[request.param]()
    return made
