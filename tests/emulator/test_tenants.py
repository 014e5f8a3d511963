"""Many tenants behind one server: parallel tests share a port, and nothing else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from faregate.core.models import WireRequest
from faregate.emulator import Emulator, ManualClock, SimulatedLedger, Tenants, Wallet
from faregate.emulator.tenants import MAX_TENANTS
from faregate.errors import ConfigurationError
from tests.support.preloaded import PreloadedPython

from .controls import Controls, refused, served
from .seller import assert_error, bearer

TESTER = """
import sys
import httpx
from faregate.emulator import Wallet

url, name = sys.argv[1:]
key = {"Authorization": f"Bearer svc_test_tenant_{name}"}
with httpx.Client(base_url=url, headers=key, trust_env=False) as client:
    tenant, rounds = f"/_emulator/tenants/{name}", int(name[-1]) + 2
    contracts = client.get("/merchant/v1/contracts").json()["components"]["schemas"]
    revision = next(one for one, about in contracts.items() if about["x-svc-resource-name"] == "Text summary")
    resource = {"url": f"https://{name}.example/a", "mime_type": "text/plain"}
    body = {"revision_id": revision, "resource": resource, "settlement_asset": "USDC"}
    fault = {"kind": "status", "status": 503, "times": rounds, "operation": "payers"}
    client.post(f"{tenant}/faults", json=fault)
    for number in range(rounds):
        client.post(f"{tenant}/clock", json={"advance": 3600 * rounds})
        now = client.get(f"{tenant}/clock").json()["now"]
        wallet = Wallet(clock=lambda: __import__("datetime").datetime.fromisoformat(now))
        asked = client.post("/merchant/v1/access", json=body)
        proof = {"PAYMENT-SIGNATURE": wallet.pay(asked.headers["payment-required"])}
        bought = client.post("/merchant/v1/access", json=body, headers=proof).json()["transaction_id"]
        done = {"revision_id": revision, "outcome": "succeeded", "values": {}}
        path = f"/merchant/v1/transactions/{bought}/complete"
        client.post(path, json=done, headers=proof).raise_for_status()
        assert client.get("/merchant/v1/payers").status_code == 503
    assert client.get("/merchant/v1/payers").json()["count"] == rounds
    found = client.get("/merchant/v1/transactions").json()
    assert found["count"] == rounds, found
    print(now, *(one["id"] for one in found["items"]))
"""


@pytest.fixture(scope="module")
def main() -> Iterator[Controls]:
    with served() as controls:
        yield controls


def test_processes_share_a_server_and_nothing_else(main: Controls) -> None:
    """Four test runs at once: each has its own transactions, clock, faults and ids."""
    names = [f"runner{number}" for number in range(4)]
    url = str(main.http.base_url)
    before = len(main.emulator.calls())
    runs = [PreloadedPython(["-c", TESTER, url, name]) for name in names]
    told = [run.communicate(timeout=60)[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0] * 4
    hours = [int(number) ** 2 for number in (2, 3, 4, 5)]
    assert [one[0][:13] for one in told] == [f"2026-01-{1 + h // 24:02}T{h % 24:02}" for h in hours]
    identifiers = [identifier for one in told for identifier in one[1:]]
    assert len(set(identifiers)) == len(identifiers) == 2 + 3 + 4 + 5
    assert len(main.emulator.calls()) == before


def test_the_same_story_in_the_same_tenant_has_the_same_ids(main: Controls) -> None:
    def scenario() -> list[str]:
        api = Controls(main.http, main.tenants, "again").api()
        return [api.buy().id, api.buy().id]

    first = scenario()
    assert main.http.delete("/_emulator/tenants/again").status_code == 204
    assert scenario() == first
    main.tenants.delete("again")


def test_a_tenant_begins_with_its_first_call(main: Controls) -> None:
    assert "fresh" not in main.tenants.names
    found = main.http.get("/merchant/v1/payers", headers=bearer("svc_test_tenant_fresh"))
    assert found.json()["items"] == []
    assert "fresh" in main.tenants.names
    readonly = bearer("svc_test_tenant_fresh.readonly")
    assert_error(main.http.post("/merchant/v1/access", json={}, headers=readonly), 403, "forbidden")
    assert main.http.get("/merchant/v1/payers", headers=readonly).status_code == 200
    assert main.http.delete("/_emulator/tenants/fresh").status_code == 204
    refused(main.http.delete("/_emulator/tenants/fresh"), 404, "tenant_not_found")


@pytest.mark.parametrize(
    "key", ["svc_test_tenant_", "svc_test_tenant_a b", "svc_test_tenant_a.other", "svc_tenant_a"]
)
def test_what_is_no_key_of_a_tenant_opens_none(main: Controls, key: str) -> None:
    before = main.tenants.names
    assert_error(main.http.get("/merchant/v1/payers", headers=bearer(key)), 401, "unauthenticated")
    assert main.tenants.names == before


def test_a_live_key_is_refused(main: Controls) -> None:
    live = bearer("svc_live_tenant_a")
    assert_error(main.http.get("/merchant/v1/payers", headers=live), 401, "unauthenticated")


def test_a_tenant_of_another_kind_with_a_seed(main: Controls) -> None:
    sold = {"key": "story", "name": "A story", "revisions": [{"amount": "5"}]}
    asked = {"name": "stories", "seed": 3, "account": {"resources": [sold]}}
    made = main.http.post("/_emulator/tenants", json=asked)
    assert made.json()["keys"][0] == "svc_test_tenant_stories"
    assert main.http.post("/_emulator/tenants", json=asked).status_code == 201
    assert main.http.post("/_emulator/tenants", json={"name": "stories"}).status_code == 201
    other = main.http.post("/_emulator/tenants", json={**asked, "seed": 4})
    assert "delete it first" in refused(other, 422, "invalid_request")
    controls = Controls(main.http, main.tenants, "stories")
    first = controls.api().buy("story").id
    assert [one["amount"] for one in controls.get("/transactions")["transactions"]] == ["5"]
    main.tenants.delete("stories")
    main.http.post("/_emulator/tenants", json=asked)
    assert controls.api().buy("story").id == first
    main.tenants.delete("stories")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "a/b"}, "1 to 100 letters"),
        ({"name": ""}, "1 to 100 letters"),
        ({"name": "a b", "account": {"resources": []}}, "1 to 100 letters"),
        ({"name": "odd", "account": {"resources": []}}, "resources: "),
        ({"name": "odd", "account": {"resources": 1, "more": 2}}, "resources: "),
        ({"name": "odd", "seed": []}, "seed"),
        ({"name": "main", "seed": 1}, "another account or seed"),
        ({}, "name: "),
    ],
)
def test_what_is_no_tenant_is_an_error(main: Controls, body: object, words: str) -> None:
    before = main.tenants.names
    assert words in refused(main.http.post("/_emulator/tenants", json=body), 422, "invalid_request")
    assert main.tenants.names == before


def test_the_main_tenant_stays(main: Controls) -> None:
    assert "reset it" in refused(main.http.delete("/_emulator/tenants/main"), 422, "invalid_request")


def test_there_are_not_more_than_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told with a smaller number: a thousand take seconds."""
    assert MAX_TENANTS == 1_000
    monkeypatch.setattr("faregate.emulator.tenants.MAX_TENANTS", 40)
    tenants = Tenants(Emulator(clock=ManualClock()))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tenants.get_or_create, (f"w{number}" for number in range(40))))
    assert len(tenants.names) == 41
    with pytest.raises(ConfigurationError, match="40 tenants already"):
        tenants.get_or_create("one-more")
    pair = ("Authorization", "Bearer svc_test_tenant_one-more")
    full = tenants.deliver(WireRequest("GET", "/merchant/v1/payers", (pair,))).response
    assert (full.status, b"40 tenants already" in full.body) == (401, True)
    assert tenants.get_or_create("w7") is tenants.find("w7")
    assert tenants.delete("w7")
    assert tenants.get_or_create("one-more") is not tenants.main


def test_a_given_ledger_is_not_shared() -> None:
    ledger = SimulatedLedger(default_balance=5)
    address = Wallet.test("good").address
    main = Emulator(ledger=ledger)
    main.set_balance(address, 6)
    other = Tenants(main).get_or_create("other")
    other.set_balance(address, 7)
    assert (main.balance(address), other.balance(address)) == (6, 7)
    other.reset()
    assert (main.balance(address), other.balance(address)) == (6, 5)


def test_many_threads_open_one_tenant(main: Controls) -> None:
    def ask(_: int) -> int:
        with httpx.Client(base_url=main.http.base_url, trust_env=False) as client:
            return client.get("/merchant/v1/payers", headers=bearer("svc_test_tenant_shared")).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(16))) == {200}
    assert len(Controls(main.http, main.tenants, "shared").emulator.calls()) == 16
