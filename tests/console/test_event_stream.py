"""The feed of the console: whole at first, then what changed; bounded, and over when it should be."""

import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from faregate.core.models import WireRequest
from faregate.emulator import Emulator, SettlementRule
from faregate.emulator.console import app as feed
from faregate.emulator.console import changes
from faregate.emulator.faults import Fault
from faregate.emulator.server import serve
from faregate.emulator.tenants import Tenants
from faregate.rules.published_payers import TEST_PAYERS
from tests.emulator.load import Seller
from tests.support.patience import GRACE, grant_grace

from .purchases import Purchases

Json = dict[str, Any]
Events = Iterator[tuple[str, Json]]


def read(lines: Iterator[str]) -> Events:
    """Kind and data of each event; heartbeats are of the kind `beat`."""
    kind = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
        elif name == "" and value:
            yield "beat", {}


@contextmanager
def follow_events(
    url: str, tenant: str, headers: dict[str, str] | None = None, **query: str
) -> Generator[Events]:
    address = f"{url}/_emulator/tenants/{tenant}/events"
    with (
        httpx.Client(trust_env=False, timeout=5) as client,
        client.stream("GET", address, headers=headers, params=query) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield read(answer.iter_lines())


def until(events: Events, part: str) -> Any:
    """The next of these parts."""
    return next(data[part] for _, data in events if part in data)


def test_it_begins_with_everything_and_goes_on_with_what_changed(
    url: str, tenant: str, purchases: Purchases
) -> None:
    identifier = purchases.buy()
    with follow_events(url, tenant) as events:
        kind, data = next(events)
        assert kind == "whole"
        assert [one["id"] for one in data["transactions"]] == [identifier]
        assert [call["status"] for call in data["calls"]] == [402, 200, 200]
        assert data["clock"]["mode"] == "real"
        second = purchases.authorize()
        kind, data = next(events)
        while "transactions" not in data:
            kind, data = next(events)
        assert kind == "change"
        assert [one["id"] for one in data["transactions"]] == [second.id]
        assert "faults" not in data


def test_who_comes_back_is_given_everything_anew(url: str, tenant: str, purchases: Purchases) -> None:
    purchases.buy()
    with follow_events(url, tenant, {"Last-Event-ID": "3"}) as events:
        kind, data = next(events)
    assert (kind, len(data["transactions"])) == ("whole", 1)


def test_the_402_is_that_of_the_purchase(url: str, tenant: str, purchases: Purchases) -> None:
    report, summary = purchases.ask("daily_report"), purchases.ask()
    first, second = purchases.pay(report, resource="daily_report"), purchases.pay(summary)
    unasked = purchases.pay(summary)
    with follow_events(url, tenant) as events:
        told = {one["id"]: one for one in until(events, "transactions")}
    assert told[first.id]["asked"]["number"] == 1
    assert told[second.id]["asked"]["number"] == 2
    assert told[second.id]["calls"] == [4]
    assert told[unasked.id]["asked"] is None


def test_an_older_purchase_has_its_402_and_its_faults_too(
    url: str, tenant: str, purchases: Purchases
) -> None:
    """A page begins with the last 300 calls."""
    bought = purchases.authorize()
    purchases.emulator.faults.add(Fault(kind="status", status=503, operation="complete"))
    purchases.complete(bought)
    purchases.complete(bought)
    for _ in range(changes.CALLS_PER_READ + 1):
        purchases.emulator.respond(WireRequest("GET", "/merchant/v1/resources"))
    with follow_events(url, tenant) as events:
        _, data = next(events)
    assert [call["number"] for call in data["calls"]] == list(range(206, 506))
    told = data["transactions"][0]
    assert (told["asked"]["number"], told["calls"], told["faults"]) == (1, [2, 3, 4], ["status-1"])


def test_a_call_that_was_undone_belongs_to_nothing(url: str, tenant: str, purchases: Purchases) -> None:
    purchases.emulator.snapshot("before")
    instructions = purchases.ask()
    purchases.emulator.restore("before")
    purchases.pay(instructions)
    with follow_events(url, tenant) as events:
        told = until(events, "transactions")[0]
    assert (told["asked"], told["calls"]) == (None, [2])


def test_what_falls_due_is_sent_though_nobody_calls(
    url: str, tenant: str, purchases: Purchases, emulator: Emulator
) -> None:
    identifier = purchases.buy("slow")
    with follow_events(url, tenant) as events:
        assert until(events, "transactions")[0]["status"] == "settling"
        emulator.clock.advance(3)
        told = until(events, "transactions")[0]
    assert (told["id"], told["status"]) == (identifier, "succeeded")


def test_a_rule_of_a_pending_transaction_is_sent(
    url: str, tenant: str, purchases: Purchases, emulator: Emulator
) -> None:
    identifier = purchases.buy("reads")
    with follow_events(url, tenant) as events:
        assert until(events, "transactions")[0]["rule"] == {"after_reads": 2}
        emulator.settle_after(identifier, SettlementRule(manual=True))
        assert until(events, "transactions")[0]["rule"] == {"manual": True}


@pytest.mark.parametrize("back", ["reset", "restore"])
def test_a_restored_tenant_is_sent_whole(url: str, tenant: str, purchases: Purchases, back: str) -> None:
    purchases.emulator.snapshot("before")
    purchases.buy()
    with follow_events(url, tenant) as events:
        next(events)
        purchases.emulator.reset() if back == "reset" else purchases.emulator.restore("before")
        kind, data = next(events)
    assert kind == "whole"
    assert "transactions" not in data
    assert data["money"]["revenue"] == {}


def test_events_continue_after_an_empty_tenant_is_reset(url: str, tenant: str, purchases: Purchases) -> None:
    with follow_events(url, tenant) as events:
        next(events)
        purchases.emulator.reset()
        identifier = purchases.buy()
        assert until(events, "transactions")[0]["id"] == identifier


def test_neither_signatures_nor_keys_are_sent(url: str, tenant: str, purchases: Purchases) -> None:
    bought = purchases.authorize()
    with follow_events(url, tenant) as events:
        _, data = next(events)
    text = json.dumps(data)
    assert bought.proof not in text
    assert "Bearer" not in text
    assert TEST_PAYERS["good"].private_key not in text
    assert len(data["transactions"][0]["proof"]["signature"]) == 15


def test_a_live_key_is_never_sent() -> None:
    emulator = Emulator(allow_live=True)
    with serve(emulator) as url, follow_events(url, "main", environment="live") as events:
        kind, data = next(events)
    assert kind == "whole"
    assert data["about"] == {"environment": "live", "key": None, "live": True}


def test_a_large_tenant_is_sent_as_its_newest_entries_and_totals() -> None:
    seller = Seller.trusted()
    for _ in range(2500):
        seller.story()
    with serve(seller.emulator) as url, follow_events(url, "main") as events:
        _, data = next(events)
        assert [one["number"] for one in data["transactions"]] == list(range(2301, 2501))
        assert len(data["calls"]) <= 300
        assert len(data["payers"]) <= 40
        assert sum(data["counts"].values()) == 2500
        ended = sum(good + ill for _, good, ill, _ in data["money"]["intervals"])
        assert ended == data["counts"]["succeeded"] + data["counts"]["failed"]
        assert int(data["money"]["revenue"]["USDC"]) == 10_000 * data["counts"]["succeeded"]
        seller.sell()
        assert len(until(events, "transactions")) == 1


def test_an_idle_tenant_sends_only_heartbeats(
    url: str, tenant: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(feed, "HEARTBEAT_SECONDS", 0.05)
    with follow_events(url, tenant) as events:
        next(events)
        assert [next(events)[0] for _ in range(3)] == ["beat", "beat", "beat"]


def test_the_stream_ends_when_its_tenant_is_deleted(
    url: str, tenants: Tenants, tenant: str, emulator: Emulator
) -> None:
    with follow_events(url, tenant) as events:
        next(events)
        tenants.delete(tenant)
        assert [kind for kind, _ in events][-1] == "gone"


def test_the_stream_ends_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    grant_grace(monkeypatch)
    ended = threading.Event()
    began = threading.Event()

    def follow(url: str) -> None:
        with follow_events(url, "main") as events:
            for _ in events:
                began.set()
        ended.set()

    with serve(Emulator()) as url:
        thread = threading.Thread(target=follow, args=(url,))
        thread.start()
        assert began.wait(GRACE / 2)
        before = time.monotonic()
    took = time.monotonic() - before
    thread.join()
    assert ended.is_set()
    assert took < GRACE / 2


def test_an_unknown_tenant_has_no_events(url: str, tenant: str, emulator: Emulator) -> None:
    address = f"{url}/_emulator/tenants"
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"{address}/nowhere/events").json()["code"] == "tenant_not_found"
        answer = client.get(f"{address}/{tenant}/events?environment=dev")
    assert (answer.status_code, answer.json()["message"]) == (422, "environment: must be test or live")
