"""Rows that were taken over, were begun under another API key, or whose transaction is no longer granted."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from faregate.core import responses
from faregate.core.claim_types import Claimed, SettlementWrite
from faregate.core.models import Response, WorkFailed
from faregate.core.results import (
    CompletionRejected,
    CompletionUnpaid,
    OtherSellersPayment,
    Settlement,
    TransactionSettled,
    TransactionState,
)
from faregate.errors import BadAnswer, Forbidden, NoAnswer, TransactionNotFound
from faregate.events import Authorized, Released, Settled, Worked
from faregate.merchant.interpret import parse_access, parse_completion, parse_transaction_state
from tests.core.flow_script import (
    ACR,
    FRESH_402,
    GOOD,
    HELD,
    LEASE_HELD,
    PAID,
    RECEIPT,
    RELEASED,
    TXN,
    UNPAID,
    WARNED,
    WORKED,
    Raise,
    accessed,
    body,
    claimed,
    code,
    completed,
    ended,
    ended_paid,
    events_of,
    found,
    leased,
    looked_up,
    play,
    play_sale,
    recorded,
    reported_failed,
    rescheduled,
    resumed,
    sale,
    settled,
    stuck,
)
from tests.core.steps import Postpone, complete_success, recover, serve, sweep

FOREIGN = replace(HELD, foreign=True)
INTERRUPTED = WorkFailed("interrupted")


def answer(settlement: Settlement) -> Response:
    return responses.build_settlement(settlement, TXN)


# The lease was lost, and somebody else delivered


def test_who_was_overtaken_hands_nothing_out() -> None:
    lost = settled(SettlementWrite.DELIVERED_ELSEWHERE)
    response = play_sale(*WORKED, completed(PAID), lost)
    assert (response.status, code(response)) == (409, "payment_in_progress")
    # The worker that delivered emits the event.
    events = events_of(serve(sale()), *WORKED, completed(PAID), lost)
    assert not any(isinstance(event, Settled) for event in events)


def test_a_settlement_that_another_worker_recorded_is_one_event() -> None:
    again = settled(SettlementWrite.REPEATED)
    events = events_of(serve(sale()), *WORKED, completed(PAID), again)
    assert [type(event) for event in events] == [Authorized, Worked, Released]


def test_an_end_that_another_worker_records_is_their_event() -> None:
    flow = recover(replace(HELD, outcome=INTERRUPTED), None)
    assert events_of(flow, looked_up(TransactionState.FAILED), ended("interrupted", False)) == []


def test_a_sweep_that_was_overtaken_has_nothing_to_hand_out() -> None:
    lost = settled(SettlementWrite.DELIVERED_ELSEWHERE, delivered=False)
    play(complete_success(HELD, GOOD, sticks_if_refused=True, request=None), completed(PAID, HELD), lost)


# A transaction was learned of without work, and access grants it no more


KNOWN = claimed(Claimed(LEASE_HELD, TXN, ACR))
GRANTED_NO_MORE = (KNOWN, found(), accessed(UNPAID), recorded(INTERRUPTED))


def test_what_is_granted_no_more_is_looked_at_and_ended() -> None:
    """It was answered with 409 for as long as its payer asked, and kept from the sweep."""
    looked = (*GRANTED_NO_MORE, looked_up(TransactionState.AUTHORIZED))
    response = play_sale(*looked, *reported_failed("interrupted"), *FRESH_402)
    assert (response.status, body(response)["transaction_id"]) == (402, TXN)


def test_what_was_paid_meanwhile_is_not_asked_for_again() -> None:
    paid = (looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("interrupted"))
    assert play_sale(*GRANTED_NO_MORE, *paid).status == 409


def test_what_is_granted_again_is_worked_for() -> None:
    assert play_sale(KNOWN, *RELEASED[1:]).status == 200


# Begun under another API key


@pytest.mark.parametrize(
    "answer",
    [TransactionNotFound(404, "transaction_not_found", ""), Forbidden(403, "forbidden", ""), NoAnswer("")],
)
def test_another_sellers_row_is_left_alone(answer: Exception) -> None:
    """Its proof is sent to nobody, and nothing is decided about it."""
    script = (looked_up(Raise(answer)), WARNED, (Postpone(LEASE_HELD), None))
    assert play(recover(FOREIGN, None), *script) == OtherSellersPayment()
    response = play_sale(resumed(FOREIGN), *script)
    assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_row_from_before_the_api_key_was_changed_is_ones_own() -> None:
    looked = looked_up(TransactionState.AUTHORIZED)
    assert play_sale(resumed(FOREIGN), looked, looked, completed(PAID, FOREIGN), settled()).status == 200


def test_a_sweep_goes_on_after_a_row_that_is_not_its_own() -> None:
    gone = looked_up(Raise(TransactionNotFound(404, "transaction_not_found", "")))
    script = (leased(FOREIGN), gone, WARNED, (Postpone(LEASE_HELD), None), leased(None))
    assert play(sweep(), *script).looked_at == 1


# Reading replies


def reply(status: int, body: Any, *headers: tuple[str, str]) -> Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, headers, raw)


@pytest.mark.parametrize("missing", [{}, {"payer": None}, {"payer": 7, "created_at": "soon"}])
def test_a_payment_that_succeeded_is_known_by_id_status_and_receipt(missing: dict[str, Any]) -> None:
    detail = {"id": TXN, "status": "succeeded", "receipt": {"id": "anything"}, **missing}
    assert parse_transaction_state(reply(200, detail), TXN) == TransactionSettled('{"id":"anything"}')


@pytest.mark.parametrize("outcome", [GOOD, INTERRUPTED])
def test_a_transaction_that_cannot_be_read_is_completed_and_not_waited_for(outcome: Any) -> None:
    entry = replace(HELD, outcome=outcome)
    looked = (looked_up(Raise(BadAnswer("not JSON"))), WARNED)
    said = completed(PAID if outcome is GOOD else CompletionUnpaid(), entry, outcome)
    end = settled(delivered=False) if outcome is GOOD else ended("interrupted")
    play(recover(entry, None), *looked, said, end)


@pytest.mark.parametrize("body", [b"<html>404</html>", b"{}", b'{"message": "no route"}', b""])
@pytest.mark.parametrize("status", [400, 404, 409, 410, 422])
def test_what_a_proxy_says_sticks_no_sale(status: int, body: bytes) -> None:
    refused = parse_completion(reply(status, body), TXN)
    assert refused == CompletionRejected(status, "unreadable", None, is_readable=False)
    script = (looked_up(TransactionState.AUTHORIZED), completed(refused, HELD), WARNED, rescheduled())
    assert answer(play(recover(HELD, sale()), *script)).status == status


def test_what_the_service_says_itself_does() -> None:
    refused = parse_completion(reply(404, {"code": "transaction_not_found", "message": "gone"}), TXN)
    reason = "completion was refused: 404 transaction_not_found"
    looked = (looked_up(TransactionState.NOT_FOUND), completed(refused, HELD))
    left = (WARNED, stuck(reason), WARNED)
    assert answer(play(recover(HELD, sale()), *looked, *left)).status == 404


def test_a_page_of_a_proxy_refuses_no_revision() -> None:
    assert type(parse_access(reply(422, b"<html>"))).__name__ == "AccessFailed"


@pytest.mark.parametrize(
    ("said", "relayed"),
    [
        ("7", "7"),
        (
            format_datetime(datetime(2026, 11, 22, 10, tzinfo=UTC), usegmt=True),
            "Sun, 22 Nov 2026 10:00:00 GMT",
        ),
        ("Sun, 22 Nov 2026 10:00:00 +0100", None),
        ("soon", None),
        ("99999", None),
        ("-1", None),
        ("Sun, 99 Nov 2026 10:00:00 GMT", None),
    ],
)
def test_when_to_come_back_is_relayed(said: str, relayed: str | None) -> None:
    error = {"code": "busy", "message": ""}
    assert parse_completion(reply(503, error, ("Retry-After", said)), TXN) == CompletionRejected(
        503, "busy", relayed
    )
