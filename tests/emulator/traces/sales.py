"""Chapters of what is sold: free and paid, settled, failed and expired, and the lists of it."""

from collections.abc import Iterator
from typing import Final

import httpx

from faregate.emulator import TEST_PAYERS, Revision
from tests.support.threads import run_in_threads

from .seller import UNKNOWN, Json, Seller

_CALLERS: Final = 6


def give_away(seller: Seller) -> None:
    made = seller.access("free_notes").json()["resource_execution_id"]
    revision = seller.find_revision("free_notes")
    facts = {
        "duration_ms": 5,
        "response_content_type": "text/plain",
        "response_size_bytes": 9,
        "response_status": 200,
    }

    def close(identifier: str = made, **changes: object) -> None:
        body = {"revision_id": revision, "resource_execution": facts, **changes}
        seller.call("POST", f"/resource-executions/{identifier}/complete", body)

    close(f"rex_{UNKNOWN}")
    close("rex_1")
    close("%00")
    close(revision_id=seller.find_revision("text_summary"))
    close(revision_id="acr_1")
    close(resource_execution=None)
    close(more=1)
    faults: tuple[Json, ...] = (
        {"duration_ms": -1},
        {"duration_ms": 2**53},
        {"duration_ms": 1.5},
        {"duration_ms": "1"},
        {"response_status": 99},
        {"response_status": 600},
        {"response_content_type": "text/plain\0"},
        {"response_content_type": "a" * 256},
        {"response_headers": {}},
    )
    for change in faults:
        close(resource_execution={**facts, **change})
    seller.call("POST", f"/resource-executions/{made}/complete", content=b"{")
    close(resource_execution={**facts, "response_status": 200.0})
    close()
    close(resource_execution={**facts, "response_status": 201})
    close(resource_execution={})
    seller.access("free_notes", seller.sign())


def sell(seller: Seller) -> None:
    bought, other = seller.buy(), seller.buy(payer="slow")
    seller.access(proof=bought.proof)
    seller.call(
        "POST",
        "/access",
        {**seller.body(), "resource": {"url": "https://seller.example/other", "mime_type": "text/html"}},
        proof=bought.proof,
    )
    seller.read(bought)
    seller.call("POST", bought.path, bought.succeeded)
    seller.call("POST", bought.path, bought.succeeded, proof=other.proof)
    seller.call("POST", bought.path, bought.succeeded, proof="e30=")
    for proof in (bought.proof, None):
        seller.call("POST", f"/transactions/txn_{UNKNOWN}/complete", bought.succeeded, proof=proof)
    for change in _list_completion_faults(seller):
        seller.complete(bought, {**bought.succeeded, **change})
    for change in _list_failure_faults():
        seller.complete(bought, {**bought.failed, **change})
    for content in (b"", b"{", b"[]", b"{}", b'{"outcome": "maybe"}'):
        seller.call("POST", bought.path, content=content, proof=bought.proof)
    done = {**bought.succeeded, "values": {"input-tokens": "12.5"}, "resource_execution": {"duration_ms": 3}}
    seller.clock.advance(1)
    for body in (done, done, {**done, "resource_execution": None}, bought.succeeded, bought.failed):
        seller.complete(bought, body)
    seller.read(bought)
    seller.access(proof=bought.proof)
    seller.access("daily_report", bought.proof)
    for body in (other.failed, other.failed, {**other.failed, "failure_code": "other"}, other.succeeded):
        seller.complete(other, body)
    seller.read(other)
    seller.access(proof=other.proof)


def _list_completion_faults(seller: Seller) -> Iterator[Json]:
    for revision in (seller.find_revision("daily_report"), f"acr_{UNKNOWN}", "acr_1", None):
        yield {"revision_id": revision}
    for outcome in ("SUCCEEDED", None, "settling", "succeeded\0"):
        yield {"outcome": outcome}
    for number in ("01", "1.", ".5", "-1", "1e3", "9" * 19, "0." + "1" * 13, "1\0", "", 1, "\u0661", "1 "):
        yield {"values": {"input-tokens": number}}
    for name in ("other", "Input-Tokens", "a\0", "", "a" * 101):
        yield {"values": {name: "1"}}
    yield {"values": None}
    yield {"values": []}
    yield {"more": 1}
    yield {"failure_code": "broken"}
    yield {"resource_execution": []}
    yield {"resource_execution": {"duration_ms": -1}}
    yield {"resource_execution": {"body": "x"}}
    yield {"resource_execution": {"response_content_type": "\0"}}


def _list_failure_faults() -> Iterator[Json]:
    for code in ("", "a" * 101, "a b", "a\0", "\u00e9", None, 5, "a\n"):
        yield {"failure_code": code}
    yield {"values": {}}


def report_values(seller: Seller) -> None:
    metered = seller.buy("token_meter")
    for values in ({}, {"output_tokens": "1"}, {"input_tokens": "1", "other": "1"}):
        seller.complete(metered, {**metered.succeeded, "values": values})
    largest = {"input_tokens": "9" * 18 + "." + "9" * 12, "output_tokens": "0"}
    seller.complete(metered, {**metered.succeeded, "values": largest})
    euro = seller.buy("euro_report")
    seller.complete(euro)
    seller.read(euro)


def settle_as_payers_and_products_do(seller: Seller) -> None:
    sold = [seller.buy(payer=name) for name in TEST_PAYERS if name != "poor"]
    sold += [seller.buy(key) for key in ("slow_settlement", "failing_settlement")]
    for step in (seller.complete, seller.read, seller.complete, seller.read):
        for bought in sold:
            step(bought)
        for bought in sold:
            seller.access(proof=bought.proof)
        seller.clock.advance(1)
    for status in ("authorized", "settling", "reconciling", "failed", "succeeded"):
        seller.get(f"/transactions?status={status}")
    seller.clock.advance(61)
    for bought in sold:
        seller.read(bought)


def let_authorizations_expire(seller: Seller) -> None:
    kept, completed, failed = seller.buy(), seller.buy(), seller.buy()
    seller.clock.advance(59)
    seller.access(proof=kept.proof)
    seller.clock.advance(1)
    seller.access(proof=kept.proof)
    seller.complete(completed)
    seller.complete(failed, failed.failed)
    for bought in (kept, completed, failed):
        seller.read(bought)
        seller.access(proof=bought.proof)


def change_what_is_sold(seller: Seller) -> None:
    before = seller.get("/resources?page_size=1").json()["as_of"]
    old, body, report = seller.buy(), seller.body(), seller.body("daily_report")
    seller.clock.advance(1)
    seller.catalog.publish("text_summary", Revision(amount=20_000, name="Dearer"))
    seller.clock.advance(1)
    seller.catalog.edit_resource("token_meter", name="Meter of tokens")
    seller.clock.advance(1)
    seller.catalog.archive("daily_report")
    seller.clock.advance(1)
    for superseded in (body, report):
        seller.call("POST", "/access", superseded)
        seller.call("POST", "/access", superseded, proof=old.proof)
    seller.access(proof=old.proof)
    seller.complete(old, {**old.succeeded, "revision_id": seller.find_revision("text_summary")})
    seller.complete(old)
    seller.complete(seller.buy())
    for query in ("", "?archived=true", f"?as_of={before}", f"?archived=true&as_of={before}"):
        seller.get(f"/resources{query}")
    seller.get("/contracts?include_integration_key=true")


def read_the_books(seller: Seller) -> None:
    for path in (
        "/transactions?page_size=7",
        "/transactions?order=oldest&page_size=9&status=succeeded",
        "/payers?page_size=3",
        "/resources?page_size=3",
    ):
        page = seller.get(path).json()
        while page["next"]:
            seller.buy()  # is on no later page of this list
            page = seller.get(page["next"].removeprefix("/merchant/v1")).json()
    payers = seller.get("/payers?order=oldest").json()["items"]
    for payer in payers:
        seller.get(f"/transactions?payer_id={payer['id']}&page_size=2")
    for payer in (f"pyr_{UNKNOWN}", "pyr_1", "", "%00", f"PYR_{UNKNOWN}"):
        seller.get(f"/transactions?payer_id={payer}")
    for status in ("SUCCEEDED", "", "pending", "%00"):
        seller.get(f"/transactions?status={status}")
    first = seller.get("/transactions?order=oldest&page_size=1").json()["items"][0]["created_at"]
    for seconds in ("01", "05", "30"):
        moment = f"{first[:17]}{seconds}Z"
        for path in ("/transactions?page_size=100", "/payers?page_size=100", "/resources?page_size=100"):
            seller.get(f"{path}&as_of={moment}")


def call_at_once(seller: Seller) -> None:
    """All callers get the one result, or are told to wait: how many wait is a matter of time."""
    for payer in ("good", "slow"):
        for outcome in ("succeeded", "failed"):
            bought = seller.buy(payer=payer)
            body = bought.succeeded if outcome == "succeeded" else bought.failed
            answers = _send_at_once(seller, bought.path, body, bought.proof)
            waiting = [one for one in answers if one.status_code != 200]
            shown = [(one.status_code, one.json().get("status"), one.text) for one in waiting]
            assert {one[:2] for one in shown} <= {(202, "settling")}, shown
            ends = {seller.recorder.show(one) for one in answers} - {
                seller.recorder.show(one) for one in waiting
            }
            seller.recorder.note(f"at once: {outcome}, paid by {payer}", *sorted(ends))
            seller.read(bought)
            seller.complete(bought, body)
    seller.clock.advance(1)
    answers = _send_at_once(seller, "/access", seller.body(), seller.sign())
    seller.recorder.note("at once: access", *{seller.recorder.show(one) for one in answers})


def _send_at_once(seller: Seller, path: str, body: Json, proof: str) -> list[httpx.Response]:
    answers = list[httpx.Response]()
    run_in_threads(*[lambda: answers.append(seller.recorder.send(path, body, proof))] * _CALLERS)
    assert len(answers) == _CALLERS
    return answers
