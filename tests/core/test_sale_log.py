"""One line per sale, as text and as fields."""

import logging
from collections.abc import Generator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from faregate import Paywall
from faregate.events import (
    Authorized,
    Event,
    Failed,
    Held,
    Redelivered,
    Refused,
    Released,
    Sale,
    Settled,
    Stuck,
    Swept,
    Worked,
)
from faregate.logs import Area
from faregate.observers import CallbackObserver, EventDispatcher, SaleOutcome
from tests.core.flow_script import TXN

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
ASKED = Sale("text_summary", "acr_1", "GET", "/summary", "test", "USDC")
PAID = Sale("text_summary", "acr_1", "GET", "/summary", "test", "USDC", 10000, 200, 21, 340, 48)
BY_USE = replace(PAID, authorized=500_000)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Generator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "faregate.sale"):
        yield caplog


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            Released(TXN, PAID),
            "sale of text_summary delivered: GET /summary, status 200, 10000 atomic USDC, access 21 ms, "
            "work 340 ms, complete 48 ms",
        ),
        (
            Released(TXN, BY_USE),
            "sale of text_summary delivered: GET /summary, status 200, 10000 of 500000 atomic USDC, "
            "access 21 ms, work 340 ms, complete 48 ms",
        ),
        (Redelivered(TXN, ASKED), "sale of text_summary redelivered: GET /summary"),
        (Settled(TXN, sale=Sale(revision_id="acr_1")), "sale of acr_1 settled"),
        (Held(TXN, "settling", ASKED), "sale of text_summary held: settling, GET /summary"),
        (Failed(TXN, "status_500"), "sale of an unknown offer failed: status_500"),
        (Stuck(TXN, "refused"), "sale of an unknown offer stuck: refused"),
    ],
)
def test_the_end_of_a_sale_is_one_line(event: Event, text: str, log: pytest.LogCaptureFixture) -> None:
    EventDispatcher().emit(event)
    assert [(line.name, line.getMessage()) for line in log.records] == [("faregate.sale", f"{text} [{TXN}]")]


def test_the_line_has_its_facts_as_fields(log: pytest.LogCaptureFixture) -> None:
    EventDispatcher().emit(Released(TXN, BY_USE))
    EventDispatcher().emit(Held(TXN, "settling", ASKED))
    paid, held = (vars(line) for line in log.records)
    assert {field.name: paid[field.name] for field in fields(Sale)} == {
        field.name: getattr(BY_USE, field.name) for field in fields(Sale)
    }
    assert (paid["transaction_id"], paid["outcome"]) == (TXN, "delivered")
    assert (held["transaction_id"], held["outcome"], held["reason"]) == (TXN, "held", "settling")
    assert "amount" not in held


@pytest.mark.parametrize(
    "event",
    [
        Refused(402, "payment_required"),
        Authorized(TXN),
        Worked(TXN, 200, 5),
        Settled(TXN, awaited=True),
        Swept(1, 1, 0, 0, 0, 5),
    ],
)
def test_what_ends_no_sale_is_no_line(event: Event, log: pytest.LogCaptureFixture) -> None:
    EventDispatcher().emit(event)
    assert log.records == []


def test_the_flow_makes_events_only_for_who_listens(caplog: pytest.LogCaptureFixture) -> None:
    def is_observed(**arguments: Any) -> bool:
        paywall = Paywall(base_url="http://127.0.0.1:9", api_key="svc_test_x", environ={}, **arguments)
        return paywall.is_observed

    with caplog.at_level(logging.WARNING, "faregate"):
        assert not is_observed()
        assert is_observed(on_event=print)
    with caplog.at_level(logging.INFO, "faregate"):
        assert is_observed()


def test_an_observer_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def is_listening(self) -> bool:
            return True

        def receive(self, event: Event) -> None:
            raise ZeroDivisionError

    heard: list[Event] = []
    dispatcher = EventDispatcher()
    dispatcher.add(Failing())
    dispatcher.add(CallbackObserver(heard.append))
    dispatcher.emit(Settled(TXN))
    assert "Failing failed for Settled" in caplog.text
    assert heard == [Settled(TXN)]


def test_fields_outcomes_and_loggers_are_documented() -> None:
    documented = [
        *(field.name for field in fields(Sale)),
        *SaleOutcome,
        *(f"faregate.{area}" for area in get_args(Area)),
    ]
    assert [name for name in documented if f"\n| `{name}` | " not in PAGE] == []
