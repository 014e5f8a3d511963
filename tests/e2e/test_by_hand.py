"""What a payer can do that keeps its proof: come back with it, and send it many times at once."""

import asyncio
from collections import Counter

import httpx

from tests.e2e.example_seller import Market
from tests.e2e.payers import proof_for


def test_without_a_proof_nothing_leaves(seller: Market) -> None:
    answer = httpx.get(f"{seller.seller}/report")

    assert answer.status_code == 402
    assert answer.json()["code"] == "payment_required"
    assert "PAYMENT-REQUIRED" in answer.headers
    assert b"report" not in answer.content
    assert seller.runs("report") == 0


def test_a_late_payment_is_delivered_to_the_same_proof(seller: Market) -> None:
    url = f"{seller.seller}/slow"
    proof = proof_for(url)

    answers = [httpx.get(url, headers=proof) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [202, 202, 200, 200]
    for early in answers[:2]:
        assert "PAYMENT-RESPONSE" not in early.headers
        assert "result" not in early.json()
        assert early.json()["transaction_id"] == seller.transactions()[0].id
    assert answers[2].json() == {"result": "worth the wait"}
    assert answers[3].content == answers[2].content
    assert answers[3].headers["PAYMENT-RESPONSE"] == answers[2].headers["PAYMENT-RESPONSE"]
    assert seller.runs("slow") == 1
    assert [one.status for one in seller.transactions()] == ["succeeded"]


def test_one_proof_ten_times_at_once(seller: Market) -> None:
    url = f"{seller.seller}/patient"
    proof = proof_for(url)
    answers = asyncio.run(_at_once(10, url, proof))

    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 9}
    codes = {answer.json()["code"] for answer in answers if answer.status_code == 409}
    assert codes == {"payment_in_progress"}
    assert seller.runs("patient") == 1
    assert len(seller.transactions()) == 1


def test_a_proof_buys_one_resource_only(seller: Market) -> None:
    proof = proof_for(f"{seller.seller}/report")
    assert httpx.get(f"{seller.seller}/report", headers=proof).status_code == 200

    other = httpx.get(f"{seller.seller}/patient", headers=proof)

    assert (other.status_code, other.json()["code"]) == (409, "proof_already_used")
    assert seller.runs("patient") == 0


def test_what_is_free_needs_no_proof(seller: Market) -> None:
    notes = httpx.get(f"{seller.seller}/notes")
    health = httpx.get(f"{seller.seller}/health")

    assert (notes.status_code, notes.json()) == (200, {"notes": "free today"})
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert seller.transactions() == []


def test_the_switch_is_the_sellers(seller: Market) -> None:
    seller.emulator.require_payment("free_notes", True)

    assert httpx.get(f"{seller.seller}/notes").status_code == 402
    assert seller.runs("notes") == 0


async def _at_once(times: int, url: str, headers: dict[str, str]) -> list[httpx.Response]:
    async with httpx.AsyncClient(timeout=30) as client:
        return await asyncio.gather(*(client.get(url, headers=headers) for _ in range(times)))
