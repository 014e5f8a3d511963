"""Calls and invariants over HTTP, for tests in any language."""

import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from faregate.emulator import Emulator, ManualClock, SettlementRule
from faregate.emulator.server import serve
from faregate.emulator.tenants import Tenants

from .load import Seller, Trusting

TENANT = "/_emulator/tenants/main"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Tenants, httpx.Client]]:
    tenants = Tenants(Emulator(clock=ManualClock(), ledger=Trusting()))
    with serve(tenants) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield tenants, client


@pytest.fixture
def seller(served: tuple[Tenants, httpx.Client]) -> Seller:
    """Another main tenant for each test, behind the same server."""
    tenants, _ = served
    tenants.main = Emulator(clock=ManualClock(), ledger=Trusting())
    return Seller(tenants.main)


@pytest.fixture
def http(served: tuple[Tenants, httpx.Client]) -> httpx.Client:
    return served[1]


def test_calls_are_listed_with_what_they_are_about(seller: Seller, http: httpx.Client) -> None:
    seller.instructions()
    transaction, proof = seller.authorize()
    seller.complete((transaction, proof))
    answer = http.get(f"{TENANT}/calls")
    asked, accessed, completed = answer.json()["calls"]

    assert (asked["operation"], asked["status"], asked["delivered"]) == ("access", 402, "whole")
    assert asked["instructions"]["accepts"][0]["amount"] == "10000"
    assert (accessed["transaction"], accessed["resource"]) == (transaction, "text_summary")
    assert completed["path"] == f"/merchant/v1/transactions/{transaction}/complete"
    assert completed["payment_response"]["success"] is True
    assert [call["number"] for call in (asked, accessed, completed)] == [1, 2, 3]
    for secret in ("svc_test", proof, "0x" + "5a" * 65):
        assert secret not in answer.text


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({"operation": "access"}, [1, 2, 3]),
        ({"operation": "access", "status": 402}, [1]),
        ({"operation": "transactions"}, []),
        ({"resource": "text_summary", "environment": "test"}, [1, 2, 3, 4]),
        ({"operation": "complete", "wait": 5}, [4]),
        ({"wait": 0, "count": 4}, [1, 2, 3, 4]),
    ],
)
def test_calls_are_found(
    query: dict[str, str | int], numbers: list[int], seller: Seller, http: httpx.Client
) -> None:
    seller.instructions()
    seller.authorize()
    seller.sell()
    found = http.get(f"{TENANT}/calls", params=query).json()["calls"]

    assert [call["number"] for call in found] == numbers


def test_a_transaction_has_its_calls(seller: Seller, http: httpx.Client) -> None:
    seller.sell()
    bought = seller.authorize()
    seller.fail(bought)
    found = http.get(f"{TENANT}/calls", params={"transaction": bought[0]}).json()["calls"]

    assert [(call["operation"], call["number"]) for call in found] == [("access", 3), ("complete", 4)]


def test_waiting_ends_when_the_call_comes(seller: Seller, http: httpx.Client) -> None:
    timer = threading.Timer(0.05, seller.sell)
    timer.start()
    answer = http.get(f"{TENANT}/calls", params={"operation": "complete", "wait": 10}, timeout=20)
    timer.join()

    assert (answer.status_code, len(answer.json()["calls"])) == (200, 1)


def test_waiting_in_vain_tells_what_came_instead(seller: Seller, http: httpx.Client) -> None:
    seller.authorize()
    answer = http.get(f"{TENANT}/calls", params={"operation": "complete", "wait": 0.01})

    assert (answer.status_code, answer.json()["code"]) == (408, "no_such_call")
    assert "complete() came 0 of 1 times" in answer.json()["message"]
    assert "<1: POST /merchant/v1/access -> 200" in answer.json()["message"]


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("operation=compelte", "operation"),
        ("wait=61", "wait"),
        ("wait=nan", "wait"),
        ("wait=5&count=0", "count"),
        ("key=svc_test_emulator", "key"),
        ("status=ok", "status"),
    ],
)
def test_a_wrong_query_is_an_error(query: str, place: str, seller: Seller, http: httpx.Client) -> None:
    answer = http.get(f"{TENANT}/calls?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["message"].startswith(f"{place}: ")


def test_invariants_are_empty_while_all_is_well(seller: Seller, http: httpx.Client) -> None:
    seller.sell()
    seller.sell()

    assert http.get(f"{TENANT}/invariants").json() == {"no_double_charge": [], "all_settled": []}


def test_what_breaks_an_invariant_is_named(seller: Seller, http: httpx.Client) -> None:
    seller.emulator.settle_after("*", SettlementRule(manual=True))
    first, second, third = (seller.authorize() for _ in range(3))  # the first and the third are one payer's
    for bought in (first, third):
        assert json.loads(seller.complete(bought).body)["status"] == "settling"
        seller.emulator.settle(bought[0])
    found = http.get(f"{TENANT}/invariants").json()

    assert [one["transactions"] for one in found["all_settled"]] == [[second[0]]]
    assert found["all_settled"][0]["about"] == f"{second[0]} is still authorized"
    assert [one["transactions"] for one in found["no_double_charge"]] == [[first[0], third[0]]]


def test_a_tenant_that_is_not_there_is_404(http: httpx.Client) -> None:
    for part in ("calls", "invariants"):
        assert http.get(f"/_emulator/tenants/nowhere/{part}").json()["code"] == "tenant_not_found"
