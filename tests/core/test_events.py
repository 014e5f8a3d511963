"""What the flow tells, and that telling changes nothing."""

import json
import logging
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from faregate.core.claims import InProgress, PendingPayment, Replayable, Resumable, SettlementWrite
from faregate.core.flow import serve
from faregate.core.models import HandlerResult, Response, WorkFailed
from faregate.core.recovery import BATCH, sweep
from faregate.core.results import (
    AccessGranted,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
)
from faregate.core.steps import (
    CallAccess,
    CallComplete,
    EmitEvent,
    GetTime,
    GetTransaction,
    LeaseNext,
    LogWarning,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    RemoveUnfetched,
    RunHandler,
    ScheduleRetry,
)
from faregate.errors import ConfigurationError, HandlerError
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
from tests.core.flow_parts import BACK, COMPLETE_HELD, FRESH_402, HELD, PENDING, STANDING
from tests.core.flow_script import (
    ACR,
    BEGINNING,
    COMPLETE,
    ENTRY,
    LEASE_HELD,
    NOTE,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
    RULES,
    TXN,
    WORK,
    WORKED,
    Raise,
    claimed,
    found,
    sale,
    told,
    told_whole,
)

BEGUN = [Authorized(TXN), Worked(TXN, 200, 5)]


def release(delivered: bool) -> tuple[Any, Any]:
    return RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, delivered), SettlementWrite.FIRST


def test_a_sale_that_goes_well() -> None:
    events = told(serve(sale()), *WORKED, (COMPLETE, PAID), release(True))
    assert events == [*BEGUN, Settled(TXN, True), Released(TXN)]


def test_a_sale_that_is_held_and_then_redeemed_by_a_sweep() -> None:
    events = told(
        serve(sale()), *WORKED, (COMPLETE, CompletionPending(PENDING)), (ScheduleRetry(LEASE_HELD), True)
    )
    assert events == [*BEGUN, Held(TXN, "settling")]
    redeemed = (
        (LeaseNext(), HELD),
        (STANDING, TransactionSettled(RECEIPT)),
        (COMPLETE_HELD, PAID),
        release(False),
    )
    assert told(sweep(), *redeemed, (LeaseNext(), None)) == [Settled(TXN), Swept(1, 1, 0, 0, 0, 0)]


def test_a_result_that_is_handed_out_again() -> None:
    again = claimed(Replayable(RESULT, PAID.payment_response, TXN))
    assert told(serve(sale()), again) == [Redelivered(TXN)]


def test_work_that_gave_nothing_to_sell() -> None:
    verdict = WorkFailed("status_500")
    broken = (RunHandler(sale(), TXN), HandlerResult(Response(500), {}, 1))
    events = told(serve(sale()), *BEGINNING, broken, *failing(verdict))
    assert events == [Authorized(TXN), Failed(TXN, "status_500")]


def test_work_that_was_interrupted() -> None:
    verdict = WorkFailed("interrupted")
    decide, *tell = failing(verdict)
    looked = (GetTransaction(TXN), TransactionState.AUTHORIZED)
    events = told(sweep(), (LeaseNext(), ENTRY), decide, looked, *tell, (LeaseNext(), None))
    assert events == [Failed(TXN, "interrupted"), Swept(1, 0, 1, 0, 0, 0)]


def failing(verdict: WorkFailed) -> tuple[tuple[Any, Any], ...]:
    return (
        (RecordOutcome(LEASE_HELD, verdict), True),
        (CallComplete(ENTRY, verdict), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason=verdict.code), True),
    )


def test_a_payment_that_failed_and_the_402_after_it() -> None:
    events = told(
        serve(sale()),
        *WORKED,
        (COMPLETE, CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
        *FRESH_402,
    )
    assert events == [*BEGUN, Failed(TXN, "payment_failed"), Refused(402, "payment_required")]


@pytest.mark.parametrize("entry", [HELD, replace(ENTRY, waiting=True)])
def test_a_payment_that_failed_while_nobody_looked(entry: PendingPayment) -> None:
    failed = (
        (LeaseNext(), entry),
        (STANDING, TransactionState.FAILED),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
    )
    swept = Swept(1, 0, 1, 0, 0, 0)
    assert told(sweep(), *failed, (LeaseNext(), None)) == [Failed(TXN, "payment_failed"), swept]


def test_a_payment_that_was_taken_for_nothing_that_is_here() -> None:
    waiting = replace(ENTRY, waiting=True)
    found = (
        (LeaseNext(), waiting),
        (STANDING, TransactionSettled(RECEIPT)),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="not_started", receipt=RECEIPT), True),
    )
    assert told(sweep(), *found, (LeaseNext(), None)) == [Settled(TXN), Swept(1, 1, 0, 0, 0, 0)]


def test_a_row_that_is_left_to_people() -> None:
    reason = "completion was refused: 404 transaction_not_found"
    refused = (COMPLETE_HELD, CompletionRejected(404, "transaction_not_found"))
    back = (
        *BACK,
        (STANDING, TransactionSettled(RECEIPT)),
        refused,
        NOTE,
        (MarkStuck(LEASE_HELD, reason), None),
        NOTE,
    )
    assert told(serve(sale()), *back) == [Stuck(TXN, reason)]


def test_a_refusal() -> None:
    assert told(serve(sale()), claimed(InProgress())) == [Refused(409, "payment_in_progress")]


def test_an_unproven_payment_that_is_asked_after() -> None:
    lost = (GetTransaction(TXN), TransactionState.PENDING)
    assert told(serve(sale()), claimed(Resumable(HELD)), lost, (ScheduleRetry(LEASE_HELD), True)) == [
        Held(TXN, "settling")
    ]


def test_events_carry_neither_proofs_nor_content() -> None:
    events = told(serve(sale()), *WORKED, (COMPLETE, PAID), release(True))
    shown = repr(events)
    assert sale().http.headers[0][1] not in shown
    assert RESULT.body.decode() not in shown
    assert PAID.payment_response not in shown


def test_every_event_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    for event in get_args(Event):
        names = ", ".join(field.name for field in fields(event))
        assert f"\n| `{event.__name__}({names})` | " in page


# Who is told


def test_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: Event) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR, "faregate"):
        EventDispatcher(fails).emit(Settled(TXN))
    assert "on_event failed for Settled" in caplog.text


def test_a_listener_can_be_called() -> None:
    with pytest.raises(ConfigurationError, match="on_event"):
        EventDispatcher("print")  # type: ignore[arg-type]


def test_who_does_not_listen_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_file_of_last_resort_that_cannot_be_written_is_told(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    EventDispatcher(None, str(tmp_path / "no" / "ids")).write_fallback(TXN, "acr_x")
    last = caplog.records[-1].getMessage()
    assert last.startswith("the fallback file could not be written either: ")
    assert str(tmp_path / "no" / "ids") in last


def test_the_removal_of_a_paid_result_is_logged_and_told() -> None:
    flow = sweep()
    assert next(flow) == GetTime()
    assert flow.send(0.0) == RemoveUnfetched(BATCH)
    warning: Any = flow.send((TXN,))
    assert (type(warning), warning.transaction_id) == (LogWarning, TXN)
    assert [flow.send(None), flow.send(None)] == [EmitEvent(Expired(TXN)), LeaseNext()]
    assert flow.send(None) == GetTime()
    assert flow.send(0.5) == EmitEvent(Swept(0, 0, 0, 0, 0, 500, expired=1))
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
    """What a sale tells whose steps take a quarter of a second each."""
    access = (CallAccess(ASKED, RULES, PROOF), AccessGranted(TXN))
    begun = (claimed(), found(), access, BEGINNING[-1], (RunHandler(ASKED, TXN), WORK), WORKED[-1])
    settled = (
        RecordSettlement(LEASE_HELD, answer.payment_response, answer.receipt, True),
        SettlementWrite.FIRST,
    )
    return told_whole(serve(ASKED), *begun, (COMPLETE, answer), settled, seconds=0.125)


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
    assert told_whole(serve(ASKED), claimed(InProgress())) == [
        Refused(409, "payment_in_progress", ASKED.sale)
    ]
    again = claimed(Replayable(RESULT, PAID.payment_response, TXN))
    assert told_whole(serve(ASKED), again) == [Redelivered(TXN, ASKED.sale)]


def test_a_handler_that_raised_has_taken_its_time() -> None:
    access = (CallAccess(ASKED, RULES, PROOF), AccessGranted(TXN))
    broken = (RunHandler(ASKED, TXN), Raise(HandlerError("no")))
    begun = (claimed(), found(), access, BEGINNING[-1], broken, NOTE)
    code = HandlerError("no").code
    events = told_whole(serve(ASKED), *begun, *failing(WorkFailed(code)), seconds=0.125)
    assert events[-1] == Failed(TXN, code, replace(ACCESSED, work_ms=125, complete_ms=250))


def test_a_payer_who_came_back_is_known_and_a_sweep_knows_the_revision() -> None:
    lost = (GetTransaction(TXN), TransactionState.PENDING)
    kept = (ScheduleRetry(LEASE_HELD), True)
    back = told_whole(serve(ASKED), claimed(Resumable(HELD)), lost, kept)
    assert back == [Held(TXN, "settling", replace(ASKED.sale, revision_id=ACR))]
    swept = told_whole(sweep(environment="test"), (LeaseNext(), HELD), lost, kept, (LeaseNext(), None))
    assert swept[0] == Held(TXN, "settling", Sale(revision_id=ACR, environment="test"))


def test_where_nobody_listens_nothing_is_told_of_a_sale_that_goes_well() -> None:
    quiet = replace(sale(), is_observed=False)
    access = (CallAccess(quiet, RULES, PROOF), AccessGranted(TXN))
    begun = (claimed(), found(), access, BEGINNING[-1], (RunHandler(quiet, TXN), WORK), WORKED[-1])
    assert told(serve(quiet), *begun, (COMPLETE, PAID), release(True)) == []
