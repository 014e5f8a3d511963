"""The events of a flow, who gets them, and that they change nothing."""

import json
import logging
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from faregate.core.claim_types import InProgress, PendingPayment, Replayable, SettlementWrite
from faregate.core.interfaces import RunHandler
from faregate.core.models import HandlerResult, Response, WorkFailed
from faregate.core.recovery import BATCH
from faregate.core.results import (
    AccessGranted,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnpaid,
    PaymentFailed,
    StuckPayment,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.errors import ConfigurationError, HandlerError, JournalError
from faregate.events import (
    Authorized,
    Event,
    Expired,
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
from faregate.observers import EventDispatcher
from tests.core.flow_script import (
    ACR,
    BEGINNING,
    ENTRY,
    FRESH_402,
    GOOD,
    HELD,
    LEASE_HELD,
    PAID,
    PENDING,
    PROOF,
    RECEIPT,
    RELEASED,
    RESULT,
    RULES,
    TXN,
    WAITING,
    WARNED,
    WORK,
    WORKED,
    Raise,
    claimed,
    completed,
    ended,
    ended_paid,
    events_of,
    failed,
    found,
    full_events_of,
    handled,
    leased,
    looked_up,
    play,
    recorded,
    reported_failed,
    rescheduled,
    resumed,
    sale,
    settled,
    stuck,
)
from tests.core.steps import (
    STEP_BACKEND,
    CallAccess,
    EmitEvent,
    LeaseNext,
    LogWarning,
    RecordFinal,
    RecordSettlement,
    RemoveUnfetched,
    close_paid,
    close_unpaid,
    complete_success,
    hold,
    mark_stuck,
    serve,
    sweep,
)

BEGUN = [Authorized(TXN), Worked(TXN, 200, 5)]


def test_a_sale_that_goes_well() -> None:
    events = events_of(serve(sale()), *RELEASED)
    assert events == [*BEGUN, Settled(TXN, True), Released(TXN)]


def test_a_sale_that_is_held_and_then_redeemed_by_a_sweep() -> None:
    events = events_of(serve(sale()), *WORKED, completed(CompletionPending(PENDING)), rescheduled())
    assert events == [*BEGUN, Held(TXN, "settling")]
    redeemed = (
        leased(HELD),
        looked_up(TransactionSettled(RECEIPT)),
        completed(PAID, HELD),
        settled(delivered=False),
    )
    assert events_of(sweep(), *redeemed, leased(None)) == [Settled(TXN), Swept(1, 1, 0, 0, 0, 0)]


def test_a_result_that_is_handed_out_again() -> None:
    again = claimed(Replayable(RESULT, PAID.payment_response, TXN))
    assert events_of(serve(sale()), again) == [Redelivered(TXN)]


def test_work_that_gave_nothing_to_sell() -> None:
    broken = handled(HandlerResult(Response(500), {}, 1))
    events = events_of(serve(sale()), *BEGINNING, broken, *failed("status_500"))
    assert events == [Authorized(TXN), Failed(TXN, "status_500")]


def test_work_that_was_interrupted() -> None:
    decided = (recorded(WorkFailed("interrupted")), looked_up(TransactionState.AUTHORIZED))
    reported = reported_failed("interrupted")
    events = events_of(sweep(), leased(ENTRY), *decided, *reported, leased(None))
    assert events == [Failed(TXN, "interrupted"), Swept(1, 0, 1, 0, 0, 0)]


def test_a_payment_that_failed_and_the_402_after_it() -> None:
    events = events_of(
        serve(sale()), *WORKED, completed(CompletionUnpaid()), ended("payment_failed"), *FRESH_402
    )
    assert events == [*BEGUN, Failed(TXN, "payment_failed"), Refused(402, "payment_required")]


@pytest.mark.parametrize("entry", [HELD, WAITING])
def test_a_payment_that_failed_while_nobody_looked(entry: PendingPayment) -> None:
    script = (leased(entry), looked_up(TransactionState.FAILED), ended("payment_failed"), leased(None))
    assert events_of(sweep(), *script) == [Failed(TXN, "payment_failed"), Swept(1, 0, 1, 0, 0, 0)]


def test_a_payment_that_was_taken_for_nothing_that_is_here() -> None:
    paid = (leased(WAITING), looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("not_started"))
    assert events_of(sweep(), *paid, leased(None)) == [Settled(TXN), Swept(1, 1, 0, 0, 0, 0)]


def test_a_row_that_is_left_to_people() -> None:
    reason = "completion was refused: 404 transaction_not_found"
    refused = completed(CompletionRejected(404, "transaction_not_found"), HELD)
    back = (resumed(), looked_up(TransactionSettled(RECEIPT)), refused, WARNED, stuck(reason), WARNED)
    assert events_of(serve(sale()), *back) == [Stuck(TXN, reason)]


def test_a_refusal() -> None:
    assert events_of(serve(sale()), claimed(InProgress())) == [Refused(409, "payment_in_progress")]


def test_an_unproven_payment_that_is_asked_after() -> None:
    lost = looked_up(TransactionState.PENDING)
    assert events_of(serve(sale()), resumed(), lost, rescheduled()) == [Held(TXN, "settling")]


def test_events_carry_neither_proofs_nor_content() -> None:
    events = events_of(serve(sale()), *RELEASED)
    shown = repr(events)
    assert sale().http.headers[0][1] not in shown
    assert RESULT.body.decode() not in shown
    assert PAID.payment_response not in shown


def test_every_event_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    for event in get_args(Event):
        names = ", ".join(field.name for field in fields(event))
        assert f"\n| `{event.__name__}({names})` | " in page


# The journal cannot be written, or another worker was faster

DISK = Raise(JournalError("disk full"))
CHARGED = '{"payment":{"settled_atomic":"10000","asset":"EURC"}}'
AMOUNT = Sale(amount=10000, asset="EURC")


@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("answer", [SettlementWrite.FIRST, SettlementWrite.REPEATED, DISK])
def test_a_settled_payment_is_counted_unless_another_worker_counts_it(answer: Any, awaited: bool) -> None:
    """If the journal fails, no other worker may ever know of it."""
    note = (WARNED,) if answer is DISK else ()
    flow = complete_success(HELD, GOOD, sticks_if_refused=True, request=sale() if awaited else None)
    settlement = RecordSettlement(LEASE_HELD, "cGFpZA==", CHARGED, awaited)
    script = (completed(CompletionPaid("cGFpZA==", CHARGED), HELD), (settlement, answer), *note)
    counted = (
        [] if answer is SettlementWrite.REPEATED else [Settled(TXN, awaited, replace(AMOUNT, complete_ms=0))]
    )
    released = [Released(TXN, replace(AMOUNT, complete_ms=0))] if awaited else []
    assert full_events_of(flow, *script) == [*counted, *released]


@pytest.mark.parametrize("answer", [True, False, DISK])
def test_an_unpaid_end_is_counted_unless_another_worker_counts_it(answer: Any) -> None:
    note = (WARNED,) if answer is DISK else ()
    script = (ended("no_work", answer), *note)
    assert play(close_unpaid(ENTRY, "no_work"), *script) == PaymentFailed("no_work")
    events = full_events_of(close_unpaid(ENTRY, "no_work"), *script)
    assert events == ([] if answer is False else [Failed(TXN, "no_work", ENTRY.sale)])


@pytest.mark.parametrize("answer", [True, False, DISK])
def test_a_charge_without_a_result_is_counted_unless_another_worker_counts_it(answer: Any) -> None:
    note = (WARNED,) if answer is DISK else ()
    step = RecordFinal(LEASE_HELD, paid=True, reason="no_work", receipt=CHARGED)
    events = full_events_of(close_paid(ENTRY, CHARGED, "no_work"), (step, answer), *note)
    assert events == ([] if answer is False else [Settled(TXN, sale=AMOUNT)])


@pytest.mark.parametrize("answer", [True, False, DISK])
def test_a_retry_that_cannot_be_written_is_held_and_one_too_old_is_stuck(answer: Any) -> None:
    payment = replace(ENTRY, sale=AMOUNT)
    script = (rescheduled(answer), *((WARNED,) if answer is not True else ()))
    state, reason = Unconfirmed("not proven"), "still open: not proven"
    expected = StuckPayment(state, reason) if answer is False else state
    assert play(hold(payment, state), *script) == expected
    events = full_events_of(hold(payment, state), *script)
    stuck_event = Stuck(TXN, reason, AMOUNT)
    assert events == [stuck_event if answer is False else Held(TXN, "not proven", AMOUNT)]


@pytest.mark.parametrize("answer", [None, DISK])
def test_a_row_left_to_an_operator_is_an_event_though_it_cannot_be_marked(answer: Any) -> None:
    payment = replace(ENTRY, sale=AMOUNT)
    note = (WARNED,) if answer is DISK else ()
    flow = mark_stuck(payment, Unconfirmed("refused: 404"))
    events = full_events_of(flow, stuck("refused: 404", answer), *note, WARNED)
    assert events == [Stuck(TXN, "refused: 404", AMOUNT)]


# Who gets events


def test_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: Event) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR, "faregate"):
        EventDispatcher(fails).emit(Settled(TXN))
    assert "on_event failed for Settled" in caplog.text


def test_a_listener_can_be_called() -> None:
    with pytest.raises(ConfigurationError, match="on_event"):
        EventDispatcher("print")  # type: ignore[arg-type]


def test_without_a_listener_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    EventDispatcher().emit(Settled(TXN))
    assert caplog.text == ""


def test_an_id_of_last_resort_is_in_the_log_and_in_its_file(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """With its revision, without which it cannot be completed."""
    file = tmp_path / "ids"
    dispatcher = EventDispatcher(None, str(file))
    dispatcher.write_fallback(TXN, "acr_x")
    dispatcher.write_fallback("txn_2", "acr_y")
    known = [(TXN, "acr_x"), ("txn_2", "acr_y")]
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert kept == [{"transaction_id": one, "revision_id": other} for one, other in known]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"the journal could not record an open transaction: {line}" for line in file.read_text().splitlines()
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_id_of_last_resort_is_on_the_disk_before_anybody_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, forced = tmp_path / "ids", []

    def fsync(_: int) -> None:
        forced.append(file.read_text())

    monkeypatch.setattr("os.fsync", fsync)
    EventDispatcher(None, str(file)).write_fallback(TXN, "acr_x")
    assert forced == [file.read_text()]
    assert TXN in forced[0]


def test_ids_of_last_resort_leave_no_file_open(tmp_path: Path) -> None:
    def lowest() -> int:
        os.close(free := os.open(os.devnull, os.O_RDONLY))
        return free

    before = lowest()
    EventDispatcher(None, str(tmp_path / "ids")).write_fallback(TXN, "acr_x")
    assert lowest() == before


def test_without_a_file_of_last_resort_the_log_has_the_id(caplog: pytest.LogCaptureFixture) -> None:
    EventDispatcher().write_fallback(TXN, "acr_x")
    [record] = caplog.records
    assert TXN in record.getMessage()


def test_a_file_of_last_resort_that_cannot_be_written_is_logged(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    EventDispatcher(None, str(tmp_path / "no" / "ids")).write_fallback(TXN, "acr_x")
    last = caplog.records[-1].getMessage()
    assert last.startswith("the fallback file could not be written either: ")
    assert str(tmp_path / "no" / "ids") in last


def test_the_removal_of_a_paid_result_is_logged_and_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEP_BACKEND, "clock", iter((0.0, 0.5)))
    flow = sweep()
    assert next(flow) == RemoveUnfetched(BATCH)
    warning: Any = flow.send((TXN,))
    assert (type(warning), warning.transaction_id) == (LogWarning, TXN)
    assert [flow.send(None), flow.send(None)] == [EmitEvent(Expired(TXN)), LeaseNext()]
    assert flow.send(None) == EmitEvent(Swept(0, 0, 0, 0, 0, 500, expired=1))
    with pytest.raises(StopIteration) as end:
        flow.send(None)
    report = end.value.value
    assert (report.looked_at, json.loads(report.as_json())["expired"]) == (0, 1)
    assert report.as_text().splitlines()[1] == "Removed, paid and not fetched in time: 1."


# What is known of the sale


ASKED = replace(sale(), sale=Sale("text_summary", method="GET", route="/summary", environment="test"))
ACCESSED = replace(ASKED.sale, revision_id=ACR, asset="USDC", access_ms=250)
DONE = replace(ACCESSED, status=200, work_ms=5)
PAID_FOR = CompletionPaid("cGFpZA==", '{"payment":{"settled_atomic":"10000","asset":"EURC"}}')


def sold(answer: CompletionPaid = PAID_FOR) -> list[Event]:
    """The events of a sale whose steps take a quarter of a second each."""
    access = (CallAccess(ASKED, RULES, PROOF), AccessGranted(TXN))
    begun = (claimed(), found(), access, BEGINNING[-1], (RunHandler(ASKED, TXN), WORK), WORKED[-1])
    settlement = RecordSettlement(LEASE_HELD, answer.payment_response, answer.receipt, True)
    return full_events_of(
        serve(ASKED), *begun, completed(answer), (settlement, SettlementWrite.FIRST), seconds=0.125
    )


def test_each_event_says_what_is_known_of_the_sale_by_then() -> None:
    paid = replace(DONE, complete_ms=250, amount=10000, asset="EURC")
    assert sold() == [
        Authorized(TXN, ACCESSED),
        Worked(TXN, 200, 5, DONE),
        Settled(TXN, True, paid),
        Released(TXN, paid),
    ]


@pytest.mark.parametrize(
    "receipt",
    [
        '{"payment":{}}',
        '{"payment":{"settled_atomic":10000}}',
        '{"payment":{"settled_atomic":"-1"}}',
        '{"payment":{"settled_atomic":"1e9","asset":1}}',
        '{"payment":"10000"}',
        "[1]",
        "[" * 100_000,
    ],
)
def test_a_receipt_that_cannot_be_read_costs_the_payer_nothing(receipt: str) -> None:
    *_, released = sold(CompletionPaid("cGFpZA==", receipt))
    assert released == Released(TXN, replace(DONE, complete_ms=250))


def test_a_refusal_and_a_second_delivery_say_whose_they_are() -> None:
    assert full_events_of(serve(ASKED), claimed(InProgress())) == [
        Refused(409, "payment_in_progress", ASKED.sale)
    ]
    again = claimed(Replayable(RESULT, PAID.payment_response, TXN))
    assert full_events_of(serve(ASKED), again) == [Redelivered(TXN, ASKED.sale)]


def test_a_handler_that_raised_has_taken_its_time() -> None:
    access = (CallAccess(ASKED, RULES, PROOF), AccessGranted(TXN))
    broken = (RunHandler(ASKED, TXN), Raise(HandlerError("no")))
    begun = (claimed(), found(), access, BEGINNING[-1], broken, WARNED)
    code = HandlerError("no").code
    events = full_events_of(serve(ASKED), *begun, *failed(code), seconds=0.125)
    assert events[-1] == Failed(TXN, code, replace(ACCESSED, work_ms=125, complete_ms=250))


def test_a_payer_who_came_back_is_known_and_a_sweep_knows_the_revision() -> None:
    lost = looked_up(TransactionState.PENDING)
    kept = rescheduled()
    back = full_events_of(serve(ASKED), resumed(), lost, kept)
    assert back == [Held(TXN, "settling", replace(ASKED.sale, revision_id=ACR))]
    swept = full_events_of(sweep(environment="test"), leased(HELD), lost, kept, leased(None))
    assert swept[0] == Held(TXN, "settling", Sale(revision_id=ACR, environment="test"))


def test_a_sale_that_goes_well_has_no_events_where_nobody_listens() -> None:
    quiet = replace(sale(), is_observed=False)
    access = (CallAccess(quiet, RULES, PROOF), AccessGranted(TXN))
    begun = (claimed(), found(), access, BEGINNING[-1], (RunHandler(quiet, TXN), WORK), WORKED[-1])
    assert events_of(serve(quiet), *begun, completed(PAID), settled()) == []
