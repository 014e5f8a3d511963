"""Real servers for all tests; behind them a fresh service with a still clock for each of them.

A test that asks for `api` or `store` runs on every store (`stores.py`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from faregate.core.models import Response, WireRequest
from faregate.emulator import Delivery, Emulator, ManualClock
from faregate.emulator.server import serve
from tests.merchant.openapi.conformance import assert_conforms
from tests.support.products import spread

from .seller import ApiClient
from .services import Build, MerchantService
from .sql_accounts import AccountSource, open_source
from .sql_server import SqlSwitch, serve_app
from .sql_service import SqlService
from .stores import find_class, find_stores

Told = list[tuple[WireRequest, Response]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        stores = find_stores(module, metafunc.function.__name__)
        metafunc.parametrize("store", spread("store", stores, find_class, thinned=["database"]))


class Switch(Emulator):
    """Answers with whichever emulator is plugged in."""

    plugged: Emulator | None = None

    def __init__(self) -> None:
        super().__init__()
        self.told: Told = []

    def plug(self, service: MerchantService) -> None:
        assert isinstance(service, Emulator)
        self.plugged = service

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


@pytest.fixture(scope="session")
def sqlite_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountSource]:
    with open_source("sqlite", tmp_path_factory.mktemp("sqlite")) as source:
        yield source


@pytest.fixture(scope="session")
def postgres_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountSource]:
    with open_source("postgres", tmp_path_factory.mktemp("postgres")) as source:
        yield source


@pytest.fixture(scope="session")
def sql_switch() -> SqlSwitch:
    return SqlSwitch()


@pytest.fixture(scope="session")
def sql_http(sql_switch: SqlSwitch) -> Iterator[httpx.Client]:
    with serve_app(sql_switch.respond) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def options() -> dict[str, Any]:
    """How the service is built, beside its clock."""
    return {"allow_live": True}


@pytest.fixture
def emulator(clock: ManualClock, options: dict[str, Any]) -> Emulator:
    return Emulator(**{"clock": clock, **options})


@pytest.fixture
def conforming(request: pytest.FixtureRequest) -> bool:
    """False where answers are broken on purpose: in the tests of faults."""
    return "test_faults" not in request.module.__name__


@pytest.fixture
def api(
    store: str, clock: ManualClock, options: dict[str, Any], conforming: bool, request: pytest.FixtureRequest
) -> Iterator[ApiClient]:
    """Whatever the service answers in a test is an answer that its description names."""
    served: Switch | SqlSwitch
    if store == "memory":
        served, http = request.getfixturevalue("switch"), request.getfixturevalue("http")
        build: Build = Emulator
        service: MerchantService = request.getfixturevalue("emulator")
    else:
        served, http = request.getfixturevalue("sql_switch"), request.getfixturevalue("sql_http")
        build = partial(SqlService, request.getfixturevalue(f"{store}_accounts"))
        service = build(**{"clock": clock, **options})
    served.plug(service)
    served.told.clear()
    yield ApiClient(http, service, clock, served.plug, build)
    for sent, response in served.told if conforming else ():
        assert_conforms(sent, response)
