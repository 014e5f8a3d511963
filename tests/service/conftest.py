"""Each database in turn, empty and with its tables, and a clock that the test moves.

What the database itself must hold is tested on both: modules and tests with the mark `every_value`.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from tests.service.databases import DATABASES, MovedClock, empty_database, new_database
from tests.service.sales import open_store
from tests.support.chain import chain
from tests.support.products import spread

__all__ = ["chain"]


@pytest.fixture(params=spread("kind", DATABASES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(kind: str, tmp_path: Path) -> Generator[str]:
    with empty_database(kind, tmp_path) as url:
        yield url


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Generator[str]:
    with new_database(kind, tmp_path) as url:
        yield url


@pytest.fixture
def database(url: str) -> Generator[Database]:
    made = Database(url)
    yield made
    made.close()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def stamps(database: Database, clock: MovedClock) -> Stamps:
    return Stamps(database, clock)


@pytest.fixture
def store(database: Database, clock: MovedClock) -> SqlStore:
    """The store of an account whose payments are real, as far as the store can tell."""
    return open_store(database, clock)
