"""A stranger rebuilds a payment's header from the chain and a 402 of its own, and sends it to the seller."""

import httpx
import pytest

from faregate.emulator import Fault, SettlementRule
from tests.attacks.chain import read_calldata, rebuild_proof
from tests.e2e.example_seller import Market
from tests.e2e.payers import PATIENCE, proof_for


def paid(seller: Market) -> tuple[str, httpx.Response]:
    """The header that the official client sent, and what the seller answered."""
    headers = proof_for(f"{seller.seller}/report")
    [proof] = headers.values()
    return proof, httpx.get(f"{seller.seller}/report", headers=headers, timeout=PATIENCE)


def stolen(seller: Market, proof: str) -> str:
    asked = httpx.get(f"{seller.seller}/report", timeout=PATIENCE)
    return rebuild_proof(read_calldata(proof), asked.headers["payment-required"])


@pytest.mark.parametrize(
    ("settlement", "status"),
    [
        (SettlementRule(after_seconds=0), 200),
        (SettlementRule(manual=True), 202),
        (SettlementRule(manual=True, via="reconciling"), 202),
        (SettlementRule(after_seconds=0, to="failed"), 402),
    ],
    ids=["succeeded", "settling", "reconciling", "failed"],
)
def test_the_stranger_gets_nothing(seller: Market, settlement: SettlementRule, status: int) -> None:
    seller.emulator.settle_after("*", settlement)
    proof, answer = paid(seller)
    assert answer.status_code == status, answer.text
    [transaction] = seller.transactions()

    header = stolen(seller, proof)
    got = httpx.get(f"{seller.seller}/report", headers={"PAYMENT-SIGNATURE": header}, timeout=PATIENCE)

    assert header != proof
    # While the payment is open or delivered, nobody is asked to pay again.
    refusal = 402 if status == 402 else 409
    assert (got.status_code, "payment-response" in got.headers) == (refusal, False)
    assert transaction.id not in got.text + str(got.headers)
    assert answer.text not in got.text
    assert [one.id for one in seller.transactions()] == [transaction.id]
    assert seller.runs("report") == 1


def test_the_header_is_the_payers_own_if_the_instructions_are_predictable(seller: Market) -> None:
    """What the test above rebuilds is right but for the challenge."""
    seller.emulator.faults.add(Fault(kind="predictable-instructions", times=None))
    proof, answer = paid(seller)
    assert answer.status_code == 200

    assert stolen(seller, proof) == proof
