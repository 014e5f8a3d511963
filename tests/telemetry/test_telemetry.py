"""Spans and metrics of sales, as the SDK exports them."""

import logging
import sys
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from faregate import Paywall
from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from tests.support.clock import Clock
from tests.telemetry.conftest import Telemetry
from tests.telemetry.shops import ROUTES, Ask, make_fastapi, make_flask, make_paywall, make_starlette, tracer

shops = pytest.mark.parametrize("make", ROUTES, ids=lambda make: make.__name__)


def buy(ask: Ask, path: str = "/report/today") -> Any:
    with tracer.start_as_current_span("unpaid"):
        unpaid = ask(path, {})
    with tracer.start_as_current_span("paid"):
        return ask(path, {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])})


@shops
def test_each_part_of_a_sale_is_a_span_below_the_current_one(
    make: Any, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    answer = buy(make(make_paywall()))
    assert answer.status_code == 200
    asked, access = telemetry.find("faregate.access")
    [work], [complete] = telemetry.find("faregate.work"), telemetry.find("faregate.complete")
    # FastAPI begins a trace of its own for each request.
    above = [f"GET {ROUTES[make]}"] * 2 if make is make_fastapi else ["unpaid", "paid"]
    assert telemetry.list_ancestors(asked)[-1] == above[0]
    assert {telemetry.list_ancestors(span)[-1] for span in (access, work, complete)} == {above[1]}
    named = [dict(span.attributes or {}).get("faregate.transaction.id") for span in (access, work, complete)]
    assert named == [answer.headers["faregate-transaction"]] * 3
    assert dict(complete.attributes or {})["faregate.work.outcome"] == "succeeded"
    for span in (asked, access, work, complete):
        attributes = dict(span.attributes or {})
        assert attributes["faregate.offer"] == "daily_report"
        assert attributes["http.route"] == ROUTES[make]
        assert span.status.status_code is StatusCode.UNSET
    # OpenTelemetry logs a context that is left in another task or thread.
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("make", [make_starlette, make_flask])
def test_the_handlers_own_spans_are_below_its_work(make: Any, telemetry: Telemetry) -> None:
    buy(make(make_paywall()))
    [own] = telemetry.find("own")
    assert telemetry.list_ancestors(own)[0] == "faregate.work"


@shops
def test_work_that_raised_has_the_type_of_its_error_and_no_more(make: Any, telemetry: Telemetry) -> None:
    assert buy(make(make_paywall()), "/report/fails").status_code == 500
    [work] = telemetry.find("faregate.work")
    assert work.status.status_code is StatusCode.ERROR
    completions = telemetry.find("faregate.complete")
    assert {dict(span.attributes or {})["faregate.work.outcome"] for span in completions} == {"failed"}
    shown = work.to_json() + "".join(span.to_json() for span in completions)
    assert "secret of the handler" not in shown


def test_a_context_does_not_stay_in_its_thread(telemetry: Telemetry) -> None:
    buy(make_flask(make_paywall()))
    assert not trace.get_current_span().get_span_context().is_valid


def test_no_span_has_a_proof_a_query_or_a_result(telemetry: Telemetry) -> None:
    ask = make_starlette(make_paywall())
    unpaid = ask("/report/today?secret=query", {})
    proof = Wallet().pay(unpaid.headers["payment-required"])
    assert ask("/report/today?secret=query", {"PAYMENT-SIGNATURE": proof}).status_code == 200
    ours = [one for one in telemetry.exporter.get_finished_spans() if one.name.startswith("faregate.")]
    shown = "".join(span.to_json() for span in ours)
    assert len(ours) == 4
    for secret in (proof, "secret=query", "Sunny", unpaid.headers["payment-required"]):
        assert secret not in shown


@pytest.mark.parametrize("is_async", [False, True])
def test_a_sweep_is_a_span_above_its_completions(is_async: bool, telemetry: Telemetry) -> None:
    clock = Clock()
    paywall = make_paywall(journal=MemoryJournal(clock=clock))
    assert buy(make_starlette(paywall), "/late").status_code == 202
    telemetry.exporter.clear()
    held = {"faregate.journal.state": "ok"}
    assert [
        value for attributes, value in telemetry.read("faregate.journal.open_payments") if attributes == held
    ]
    sweep_until_settled(paywall, is_async, clock)
    completions = telemetry.find("faregate.complete")
    assert completions
    assert all(telemetry.list_ancestors(complete) == ["faregate.sweep"] for complete in completions)
    assert {span.status.status_code for span in telemetry.find("faregate.sweep")} == {StatusCode.UNSET}


def sweep_until_settled(paywall: Paywall, is_async: bool, clock: Clock) -> None:
    """Sweep a payment that settles late, each time when it is due again."""
    for _ in range(3):
        clock.now += 60
        report = anyio.run(paywall.asweep) if is_async else paywall.sweep()
        assert report.looked_at == 1
        if report.settled:
            return
    raise AssertionError("the payment did not settle")


def count(telemetry: Telemetry, name: str, /, **wanted: Any) -> float:
    """The sum of the points whose attributes end in these names and have these values."""
    return sum(
        value
        for attributes, value in telemetry.read(name)
        if wanted.items() <= {key.rpartition(".")[2]: one for key, one in attributes.items()}.items()
    )


def test_sales_are_counted_by_outcome_and_measured(telemetry: Telemetry) -> None:
    def read() -> list[float]:
        return [
            count(telemetry, "faregate.sales", outcome="delivered", offer="daily_report"),
            count(telemetry, "faregate.sales", outcome="failed", offer="daily_report"),
            count(telemetry, "faregate.sales", outcome="held", offer="slow_settlement"),
            count(telemetry, "faregate.revenue", asset="USDC", environment="test"),
            count(telemetry, "faregate.refusals", status_code=402),
            count(telemetry, "faregate.operation.duration", name="access"),
            count(telemetry, "faregate.operation.duration", name="work"),
            count(telemetry, "faregate.operation.duration", name="complete"),
            count(telemetry, "faregate.sweep.duration"),
        ]

    before = read()
    paywall = make_paywall()
    ask = make_starlette(paywall)
    buy(ask)
    buy(ask, "/report/fails")
    buy(ask, "/late")
    paywall.sweep()
    assert [after - was for was, after in zip(before, read(), strict=True)] == [1, 1, 1, 50000, 3, 3, 3, 3, 1]


def test_without_the_package_the_setting_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "faregate.telemetry", raising=False)
    with pytest.raises(ConfigurationError, match="faregate\\[otel\\]"):
        make_paywall()


def test_a_paywall_that_is_not_traced_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "faregate.sale")  # whose INFO lines are an observer too
    monkeypatch.delitem(sys.modules, "faregate.telemetry", raising=False)
    paywall = Paywall(base_url="emulator:", environ={})
    assert "faregate.telemetry" not in sys.modules
    assert paywall.instrumentation is None
    assert not paywall.is_observed


@pytest.mark.parametrize("broken", [{"on_start"}, {"on_end"}], ids=lambda names: "".join(names))
@pytest.mark.parametrize("make", [make_starlette, make_flask])
def test_tracing_that_fails_costs_no_sale(
    make: Any, broken: set[str], telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.processor.broken = frozenset(broken)
    paywall = make_paywall()
    ask = make(paywall)
    sold = buy(ask)
    assert (sold.status_code, sold.json()) == (200, {"report": "Sunny."})
    assert buy(ask, "/report/fails").status_code == 500
    # Of each sale: two spans of access, one of the work and one of complete.
    assert telemetry.processor.raised == 8
    assert count_logged(caplog, "tracing failed") == 8


@pytest.mark.parametrize("broken", [{"on_start"}, {"on_end"}], ids=lambda names: "".join(names))
@pytest.mark.parametrize("is_async", [False, True])
def test_tracing_that_fails_costs_no_sweep(is_async: bool, broken: set[str], telemetry: Telemetry) -> None:
    clock = Clock()
    paywall = make_paywall(journal=MemoryJournal(clock=clock))
    ask = make_starlette(paywall)
    unpaid = ask("/late", {})
    proof = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])}
    assert ask("/late", proof).status_code == 202
    telemetry.processor.broken = frozenset(broken)
    sweep_until_settled(paywall, is_async, clock)
    assert telemetry.processor.raised >= 2
    assert ask("/late", proof).json() == {"report": "Sunny."}
    assert not trace.get_current_span().get_span_context().is_valid


def count_logged(caplog: pytest.LogCaptureFixture, message: str) -> int:
    return sum(message in record.getMessage() for record in caplog.records)
