"""The emulator and the service, on SQLite and on PostgreSQL, answer one story alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faregate.rules.http import HttpError
from faregate.rules.routes import ROUTES, find_route
from tests.service.databases import DATABASES

from .seller import ROOT
from .traces.record import Exchange, Recorder, compare
from .traces.services import serve_emulator, serve_service
from .traces.story import tell


@pytest.fixture(scope="module")
def expected() -> Iterator[Recorder]:
    with serve_emulator() as seller:
        tell(seller)
        yield seller.recorder


@pytest.mark.every_value
@pytest.mark.parametrize("kind", DATABASES)
def test_a_database_answers_as_the_emulator_does(kind: str, tmp_path: Path, expected: Recorder) -> None:
    with serve_service(kind, tmp_path) as seller:
        tell(seller)
    difference = compare(expected, seller.recorder, ("emulator", kind))
    if difference:
        pytest.fail(difference, pytrace=False)


def test_the_story_has_every_endpoint_and_every_kind_of_answer(expected: Recorder) -> None:
    answered = {(find_operation(one), one.answer[0]) for one in expected.exchanges if one.answer}
    assert {(route.operation, "200") for route in ROUTES} <= answered
    # A transaction is read without a body and without parameters.
    assert {(route.operation, "422") for route in ROUTES} - answered == {("transaction", "422")}
    statuses = {status for _, status in answered}
    assert statuses == {"200", "202", "400", "401", "402", "403", "404", "405", "409", "422"}


def find_operation(exchange: Exchange) -> str | None:
    method, _, path = exchange.call[0].partition(" ")
    try:
        return find_route(method, ROOT + path.partition("?")[0])[0].operation
    except HttpError:
        return None
