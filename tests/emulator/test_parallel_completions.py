"""Several callers complete one transaction at once, in threads: each gets the result, or is told to wait."""

import json
from functools import partial
from typing import Any

import pytest

from faregate.core.models import Response, WireRequest
from faregate.emulator import SettlementRule
from tests.merchant.openapi.conformance import assert_conforms
from tests.support.threads import run_in_threads

from .seller import ROOT, ApiClient, Json, Purchase, bearer

CALLERS = 8
PRICE = 10_000
SUCCEEDED: Json = {"outcome": "succeeded", "values": {}}
FAILED: Json = {"outcome": "failed", "failure_code": "broken"}


def complete_at_once(api: ApiClient, bought: Purchase, *outcomes: Json) -> list[tuple[int, Json]]:
    """Complete with these outcomes in turn, in a thread for each caller; return status and body of each."""
    answers = list[tuple[WireRequest, Response]]()

    def call(outcome: Json) -> None:
        body = {"revision_id": bought.revision_id, **outcome}
        headers = (*bearer(api.key).items(), ("PAYMENT-SIGNATURE", bought.proof))
        path = f"{ROOT}/transactions/{bought.id}/complete"
        request = WireRequest("POST", path, headers, json.dumps(body).encode())
        answers.append((request, api.service.respond(request)))

    given = outcomes or (SUCCEEDED,)
    run_in_threads(*(partial(call, given[n % len(given)]) for n in range(CALLERS)))
    assert len(answers) == CALLERS
    for request, answer in answers:
        assert_conforms(request, answer)
    return [(answer.status, json.loads(answer.body)) for _, answer in answers]


def list_statuses(answers: list[tuple[int, Json]]) -> set[tuple[int, str]]:
    return {(status, body["status"]) for status, body in answers}


@pytest.mark.every_value
def test_each_caller_gets_the_result_or_is_told_to_wait(api: ApiClient) -> None:
    for number in range(1, 16):
        answers = complete_at_once(api, api.buy())
        assert list_statuses(answers) <= {(200, "succeeded"), (202, "settling")}
        results = [body for status, body in answers if status == 200]
        assert results, "the first caller settles it at once"
        assert results == [results[0]] * len(results)
        assert api.service.balance(api.service.account.seller.pay_to) == number * PRICE


@pytest.mark.every_value
@pytest.mark.parametrize("via", ["settling", "reconciling"])
def test_no_other_caller_settles_what_its_rule_fails(api: ApiClient, via: Any) -> None:
    api.service.settle_after("*", SettlementRule(after_seconds=0, via=via, to="failed"))
    for _ in range(15):
        answers = complete_at_once(api, api.buy())
        assert list_statuses(answers) <= {(200, "failed"), (202, "settling")}
        assert 200 in {status for status, _ in answers}
    assert api.service.balance(api.service.account.seller.pay_to) == 0


@pytest.mark.every_value
def test_no_other_caller_settles_what_waits(api: ApiClient) -> None:
    api.service.settle_after("*", SettlementRule(after_seconds=5, via="reconciling"))
    bought = [api.buy() for _ in range(8)]
    for one in bought:
        assert list_statuses(complete_at_once(api, one)) <= {(202, "settling"), (202, "reconciling")}
    api.clock.advance(5)
    assert {api.transaction(one)["status"] for one in bought} == {"succeeded"}


@pytest.mark.every_value
def test_one_outcome_counts(api: ApiClient) -> None:
    for _ in range(8):
        bought = api.buy()
        answers = complete_at_once(api, bought, SUCCEEDED, FAILED)
        assert {status for status, _ in answers} <= {200, 202, 409}
        ends = {body["status"] for status, body in answers if status == 200}
        assert ends == {api.transaction(bought)["status"]}
