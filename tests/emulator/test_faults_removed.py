"""A fault that is over leaves nothing behind: the answers are those of a tenant that never had one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.core.models import Response
from faregate.emulator import MODES, CountedIds, Emulator, Fault, ManualClock
from faregate.emulator.faults.apply import remove_challenges

from .faulty import EXAMPLES, name_of
from .load import Seller, Trusting, access_body, complete_body, unsigned_proof


def seller() -> Seller:
    """In a tenant whose answers are the same each time."""
    return Seller(
        Emulator(clock=ManualClock(), ids=CountedIds(), ledger=Trusting(), expose_execution_id=True)
    )


def scenario(here: Seller, number: int, times: int = 1) -> list[Response]:
    """Sales of every outcome, and all the reads. Each call is made so often; its last answer counts.

    Challenges are left out: they are counted, and some of them were given in answers that do not count.
    """

    def call(method: str, path: str, body: object = None, proof: str = "") -> Response:
        return remove_challenges([here.call(method, path, body, proof) for _ in range(times)][-1])

    body, proof = access_body(here.revision_id), unsigned_proof(number, payer=number)
    free = access_body(here.emulator.revision_id("free_notes"))
    answers = [call("POST", "/access", body), call("POST", "/access", body, proof)]
    transaction = f"/transactions/{transaction_of(answers[-1])}"
    completed = complete_body(here.revision_id)
    failed = {"revision_id": here.revision_id, "outcome": "failed", "failure_code": "no"}
    answers += [
        call("POST", f"{transaction}/complete", {}, proof),
        call("POST", f"{transaction}/complete", completed, proof),
        call("POST", f"{transaction}/complete", completed, proof),
        call("POST", f"{transaction}/complete", failed, proof),
        call("POST", "/access", body, proof),
        here.call("POST", "/access", free),
        call("GET", transaction),
        call("GET", "/transactions?status=succeeded"),
        call("GET", "/payers"),
        call("GET", "/resources"),
        call("GET", "/contracts"),
        call("GET", "/nothing"),
    ]
    return answers


def transaction_of(answer: Response) -> str:
    return answer.body.decode().partition("txn_")[2].partition('"')[0].join(("txn_", ""))


REFERENCE = scenario(seller(), 1)


def test_the_story_is_whole() -> None:
    statuses = [answer.status for answer in REFERENCE]
    assert statuses == [402, 200, 422, 200, 200, 409, 402, 200, 200, 200, 200, 200, 200, 404]


@given(st.lists(st.sampled_from(EXAMPLES), max_size=5), st.sampled_from(("clear", "remove", "mode")))
def test_faults_that_are_taken_away(told: list[Fault], how: str) -> None:
    here = seller()
    rules = [here.emulator.faults.add(fault) for fault in told]
    if how == "clear":
        here.emulator.faults.clear()
    elif how == "mode":
        here.emulator.mode("clean")
    else:
        assert all(here.emulator.faults.remove(rule.id) for rule in rules)
    assert scenario(here, 1) == REFERENCE


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_was_left(mode: str) -> None:
    here = seller()
    here.emulator.mode(mode)
    here.emulator.mode("clean")
    assert scenario(here, 1) == REFERENCE


@pytest.mark.parametrize("fault", EXAMPLES, ids=name_of)
def test_a_fault_that_is_spent(fault: Fault) -> None:
    """Every call is made until it is answered well: the fault is spent among them."""
    struck, plain = seller(), seller()
    rule = struck.emulator.faults.add(fault)
    assert scenario(struck, 1, times=3) == scenario(plain, 1, times=3)
    assert (rule.applied, len(struck.emulator.faults)) == (1, 0)
    assert scenario(struck, 2) == scenario(plain, 2)


@pytest.mark.parametrize("fault", EXAMPLES, ids=name_of)
def test_a_fault_strikes_where_it_should(fault: Fault) -> None:
    """Otherwise the tests above would hold for faults that do nothing."""
    here = seller()
    here.emulator.faults.add(fault)
    scenario(here, 1, times=3)
    [hit] = [call for call in here.emulator.calls() if call.fault is not None]
    assert hit.fault == f"{fault.kind}-1"
    assert hit.info.operation == fault.operation
