"""What the emulator answers is what the document names: every operation, every status, test and live."""

import pytest

from faregate.emulator import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY, Emulator
from faregate.merchant.openapi import describe
from tests.emulator.ledgers import UnreachableLedger

from .conformance import assert_conforms, description
from .recorded_calls import Teller, read

UNKNOWN = "txn_0123456789ab7cde89abcdef01234567"
FREE = UNKNOWN.replace("txn", "rex")
METADATA = {
    "duration_ms": 0,
    "response_content_type": "text/html; charset=utf-8",
    "response_size_bytes": 2**53 - 1,
    "response_status": 599,
}


def sales(seller: Teller) -> None:
    """Payments that end well, badly, late and not at all."""
    for resource in ("text_summary", "euro_report"):
        bought = seller.buy(resource)
        seller.call("GET", f"/transactions/{bought[0]}")
        seller.complete(resource, bought, resource_execution=METADATA)
        seller.complete(resource, bought)
        seller.fail(resource, bought)
        seller.complete(resource, bought, revision_id=seller.revision("daily_report"))
        seller.access(resource, bought[1])
        seller.call("GET", f"/transactions/{bought[0]}")
    seller.complete("token_meter", seller.buy("token_meter"), values={"input_tokens": "12.5"})
    seller.complete("token_meter", seller.buy("token_meter"))
    for resource in ("slow_settlement", "failing_settlement"):
        bought = seller.buy(resource)
        seller.complete(resource, bought)
        seller.access(resource, bought[1])
        for _ in range(3):
            seller.call("GET", f"/transactions/{bought[0]}")
        seller.complete(resource, bought)
    bought = seller.buy("daily_report")
    seller.fail("daily_report", bought)
    seller.call("GET", f"/transactions/{bought[0]}")
    seller.complete("daily_report", (UNKNOWN, bought[1]))
    seller.complete("daily_report", (bought[0], "no proof"))
    seller.buy("text_summary")


def gifts(seller: Teller) -> None:
    """Free access and its executions."""
    execution = read(seller.access("free_notes"))["resource_execution_id"]
    for changes in (
        {"resource_execution": METADATA},
        {"resource_execution": METADATA | {"duration_ms": 1}},
        {"revision_id": seller.revision("text_summary")},
        {"revision_id": "acr_1"},
    ):
        seller.close(execution, **changes)
    seller.close(FREE)
    seller.call("POST", f"/resource-executions/{FREE}/complete", b"{")


def lists(seller: Teller) -> None:
    """Every list: whole, in pages, filtered, empty, and asked for wrongly."""
    for path in ("/transactions", "/payers", "/resources"):
        for query in (
            "",
            "?page_size=1",
            "?order=oldest&page=2&page_size=3",
            "?page=1000",
            "?page=0",
            "?a=b",
        ):
            seller.call("GET", path + query)
        seller.call("GET", f"{path}?as_of=2026-01-01T00:00:00Z")
        seller.call("GET", f"{path}?as_of=2126-01-01T00:00:00Z")
    for status in ("authorized", "settling", "reconciling", "failed", "succeeded", "unknown"):
        seller.call("GET", f"/transactions?status={status}")
    seller.call("GET", "/resources?archived=true")
    for query in ("", "?include_integration_key=true", "?include_integration_key=false", "?page=1"):
        seller.call("GET", "/contracts" + query)


def outage(seller: Teller) -> None:
    """A payment that nobody can be asked about."""
    reachable, seller.emulator = seller.emulator, Emulator(clock=seller.clock, ledger=UnreachableLedger())
    proof = seller.wallet.pay(seller.access("text_summary").first("payment-required") or "")
    seller.access("text_summary", proof)
    seller.emulator = reachable


def refusals(seller: Teller) -> None:
    """Every operation, with keys that are not valid or may not do it, and with bodies of nothing."""
    posts = ("/access", f"/transactions/{UNKNOWN}/complete", f"/resource-executions/{FREE}/complete")
    reads = ("/transactions", f"/transactions/{UNKNOWN}", "/payers", "/resources", "/contracts")
    proof = ("PAYMENT-SIGNATURE", seller.buy("text_summary")[1])
    for path in posts:
        for body in (b"{", b"[]", b"{}", b'{"outcome": "unheard of"}'):
            seller.call("POST", path, body, proof)
    for key in ("svc_test_unknown", READ_ONLY_TEST_KEY):
        seller.key = key
        for path in posts:
            seller.call("POST", path, {}, proof)
        for path in reads:
            seller.call("GET", path)
    seller.key = TEST_KEY
    for method, path in (
        ("GET", "/access"),
        ("POST", "/payers"),
        ("GET", "/nothing"),
        ("DELETE", "/resources"),
    ):
        seller.call(method, path)


@pytest.fixture(scope="module")
def seller() -> Teller:
    """Has told its whole story."""
    seller = Teller()
    outage(seller)
    for key in (TEST_KEY, LIVE_KEY):
        seller.key = key
        for story in (sales, gifts, lists):
            story(seller)
    refusals(seller)
    return seller


def test_every_answer_conforms(seller: Teller) -> None:
    for request, response in seller.told:
        assert_conforms(request, response)
    assert len(seller.told) > 200


def test_the_story_has_every_answer_that_the_document_names(seller: Teller) -> None:
    """But what a broken or a busy service gives, and 403 for what the key of the built-in tenant may do."""
    given: set[tuple[str, str]] = set()
    for request, response in seller.told:
        operation = description().operation(request)
        if operation is not None:
            given.add((operation.name, str(response.status)))
    named = {
        (f"{method.upper()} {path}", status)
        for path, item in describe()["paths"].items()
        for method, operation in item.items()
        for status in operation["responses"]
    }
    readable = {(name, "403") for name, _ in named if name.startswith("GET ")}
    troubled = {(name, status) for name, _ in named for status in ("429", "500", "503")}
    assert named - given - readable - troubled == set()
    assert ("POST /merchant/v1/access", "503") in given


def test_the_story_has_every_status_of_a_transaction(seller: Teller) -> None:
    answers = [read(response) for _, response in seller.told]
    seen = {answer["status"] for answer in answers if "status" in answer}
    assert seen == {"authorized", "settling", "reconciling", "failed", "succeeded"}
