"""The control plane over HTTP: time, state, snapshots, payments, payers, and what it tells of itself."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from http.client import HTTPConnection

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from faregate.emulator import TEST_KEY, TEST_PAYERS, Wallet, app

from .controls import Controls, refused, served
from .seller import ApiClient, assert_error, bearer


@pytest.fixture(scope="module")
def main() -> Iterator[Controls]:
    with served() as controls:
        yield controls


@pytest.fixture
def tenant(main: Controls, request: pytest.FixtureRequest) -> Controls:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return Controls(main.http, main.tenants, name[-100:])


@pytest.fixture
def api(tenant: Controls) -> ApiClient:
    return tenant.api()


# What it tells of itself


def test_it_lists_its_addresses(main: Controls) -> None:
    response = main.http.get("/_emulator")
    told = response.json()
    assert told["emulator"] == response.headers["faregate-emulator"]
    lines = {(one["method"], one["path"]): one["about"] for one in told["addresses"]}
    assert all(lines.values())
    one = "/_emulator/tenants/{name}"
    assert {
        *{
            ("GET", "/_emulator"),
            ("GET", "/_emulator/tenants"),
            ("POST", "/_emulator/tenants"),
            ("DELETE", one),
        },
        *{("GET", f"{one}/clock"), ("POST", f"{one}/clock"), ("POST", f"{one}/reset")},
        *{("GET", f"{one}/state"), ("PUT", f"{one}/state"), ("GET", f"{one}/snapshots")},
        *{("POST", f"{one}/snapshots"), ("POST", f"{one}/snapshots/{{snapshot}}/restore")},
        *{("GET", f"{one}/transactions"), ("POST", f"{one}/transactions/{{transaction}}/settle")},
        *{("POST", f"{one}/transactions/{{transaction}}/fail"), ("PUT", f"{one}/settlements/{{target}}")},
        *{("DELETE", f"{one}/settlements/{{target}}"), ("GET", f"{one}/payers")},
        *{("PUT", f"{one}/balances/{{address}}"), ("GET", f"{one}/faults")},
    } <= set(lines)


def test_every_answer_says_whose_it_is(main: Controls) -> None:
    answers = [
        main.http.get(path) for path in ("/", "/_emulator/tenants", "/_emulator/no", "/merchant/v1/payers")
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 401]
    assert len({answer.headers["faregate-emulator"] for answer in answers}) == 1
    assert all(len(answer.headers.get_list("faregate-emulator")) == 1 for answer in answers)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/_emulator/nothing", 404, "invalid_request"),
        ("PATCH", "/_emulator/tenants", 405, "invalid_request"),
        ("GET", "/_emulator/tenants/nobody/clock", 404, "tenant_not_found"),
        ("POST", "/_emulator/tenants/nobody/reset", 404, "tenant_not_found"),
        ("GET", "/_emulator/tenants/main/transactions?environment=prod", 422, "invalid_request"),
        ("GET", "/_emulator/tenants/main/transactions?limit=0", 422, "invalid_request"),
        ("GET", "/_emulator/tenants/main/transactions?page=2", 422, "invalid_request"),
        ("GET", "/_emulator/tenants/main/payers?environment=prod", 422, "invalid_request"),
        ("POST", "/_emulator/tenants/main/transactions/txn_1/settle", 404, "transaction_not_found"),
        ("POST", "/_emulator/tenants/main/transactions/txn_1/fail", 404, "transaction_not_found"),
        ("POST", "/_emulator/tenants/main/snapshots/none/restore", 404, "snapshot_not_found"),
        ("DELETE", "/_emulator/tenants/main/settlements/no_such", 422, "invalid_request"),
    ],
)
def test_errors_are_json(main: Controls, method: str, path: str, status: int, code: str) -> None:
    assert refused(main.http.request(method, path), status, code)


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/clock", {}, "exactly one"),
        ("POST", "/clock", {"advance": 1, "run": 1}, "exactly one"),
        ("POST", "/clock", {"advance": None}, "only freeze may be null"),
        ("POST", "/clock", {"advance": "1"}, "advance: "),
        ("POST", "/clock", {"advance": -1}, "time advances by 0 seconds or more"),
        ("POST", "/clock", {"freeze": "2026-01-01T00:00:00"}, "freeze: "),
        ("POST", "/clock", {"freeze": "2020-01-01T00:00:00Z"}, "time does not run backwards"),
        ("POST", "/clock", {"run": 0}, "the rate of a clock"),
        ("POST", "/clock", {"run": 1, "why": 2}, "why: "),
        ("POST", "/snapshots", {"name": "../x"}, "1 to 100 letters"),
        ("POST", "/snapshots", {"named": "x"}, "named: "),
        ("PUT", "/state", {}, "version: "),
        ("PUT", "/state", {"version": 2}, "version: "),
        ("PUT", "/state", {"version": 1, "test": {"resources": [{}]}}, "test.resources[0].key: "),
        ("PUT", "/settlements/*", {"after_reads": 1, "manual": True}, "exactly one"),
        ("PUT", "/settlements/no_such", {"manual": True}, "no resource here"),
        ("PUT", "/balances/me", {"USDC": "1"}, "must be an address"),
        ("PUT", f"/balances/0x{'1' * 40}", {"USDC": "-1"}, "USDC: "),
        ("PUT", f"/balances/0x{'1' * 40}", {"GOLD": "1"}, "GOLD"),
        ("POST", "", None, ""),
    ],
)
def test_a_wrong_body_is_an_error(tenant: Controls, method: str, path: str, body: object, words: str) -> None:
    assert tenant.emulator.calls() == []
    if not path:
        response = tenant.http.put(f"/_emulator/tenants/{tenant.name}/state", content=b"{")
    else:
        response = tenant.call(method, path, body)
    assert words in refused(response, 422, "invalid_request")


# Time


def test_the_clock(tenant: Controls) -> None:
    assert tenant.emulator.clock.mode == "frozen"
    assert tenant.get("/clock") == {"now": "2026-01-01T00:00:00Z", "mode": "frozen", "rate": 0.0}
    advanced = tenant.call("POST", "/clock", {"advance": 1.5}).json()
    assert advanced["now"] == "2026-01-01T00:00:01.500000Z"
    assert tenant.get("/clock") == advanced
    moment = "2026-02-01T00:00:00Z"
    assert tenant.call("POST", "/clock", {"freeze": moment}).json()["now"] == moment
    running = tenant.call("POST", "/clock", {"run": 60}).json()
    assert (running["mode"], running["rate"]) == ("scaled", 60)
    assert tenant.call("POST", "/clock", {"run": 1}).json()["mode"] == "real"
    frozen = tenant.call("POST", "/clock", {"freeze": None}).json()
    assert frozen["mode"] == "frozen"
    assert datetime.fromisoformat(frozen["now"]) > datetime.fromisoformat(moment)
    assert tenant.get("/clock") == frozen


def test_what_falls_due_settles_when_time_is_advanced(tenant: Controls, api: ApiClient) -> None:
    api.wallet = Wallet.test("slow", clock=api.clock)
    bought = api.buy()
    assert api.complete(bought).status_code == 202
    tenant.call("POST", "/clock", {"advance": 2})
    (shown,) = tenant.get("/transactions")["transactions"]
    assert shown["status"] == "succeeded"
    assert api.transaction(bought)["status"] == "succeeded"


# State


def test_reset(tenant: Controls, api: ApiClient) -> None:
    before = tenant.get("/state")
    api.complete(api.buy())
    tenant.call("POST", "/clock", {"advance": 60})
    tenant.call("POST", "/faults", {"mode": "double-402"})
    assert tenant.call("POST", "/reset").status_code == 204
    assert tenant.get("/state") == before
    assert tenant.emulator.calls() == []
    assert tenant.get("/faults")["faults"] == []


def test_a_state_document_goes_from_one_tenant_to_another(tenant: Controls, api: ApiClient) -> None:
    bought = api.buy()
    document = tenant.get("/state")
    other = Controls(tenant.http, tenant.tenants, f"{tenant.name}-other")
    seller = other.api()
    assert other.call("PUT", "/state", document).status_code == 204
    assert other.get("/state") == document
    assert seller.complete(bought).json()["status"] == "succeeded"
    assert api.transaction(bought)["status"] == "authorized"


def test_snapshots(tenant: Controls, api: ApiClient) -> None:
    bought = api.buy()
    assert tenant.call("POST", "/snapshots", {"name": "open"}).json() == {"name": "open"}
    assert tenant.call("POST", "/snapshots").json() == {"name": "snapshot-1"}
    assert tenant.get("/snapshots") == {"snapshots": ["open", "snapshot-1"]}
    assert api.complete(bought).json()["status"] == "succeeded"
    assert tenant.call("POST", "/snapshots/open/restore").status_code == 204
    assert api.transaction(bought)["status"] == "authorized"


# Payments


def test_payments_are_settled_and_failed(tenant: Controls, api: ApiClient) -> None:
    assert tenant.call("PUT", "/settlements/*", {"manual": True}).status_code == 204
    first, second, third = api.buy(), api.buy(), api.buy("daily_report")
    for bought in (first, second):
        assert api.complete(bought).status_code == 202
    assert "has not completed" in refused(
        tenant.call("POST", f"/transactions/{third.id}/settle"), 422, "invalid_request"
    )
    settled = tenant.call("POST", f"/transactions/{first.id}/settle").json()
    assert (settled["status"], settled["outcome"]) == ("succeeded", "succeeded")
    assert tenant.call("POST", f"/transactions/{second.id}/fail").json()["status"] == "failed"
    refused(tenant.call("POST", f"/transactions/{second.id}/settle"), 422, "invalid_request")
    assert api.complete(second).json()["status"] == "failed"
    statuses = [one["status"] for one in tenant.get("/transactions")["transactions"]]
    assert statuses == ["authorized", "failed", "succeeded"]
    assert shown(tenant, "?status=failed") == [second.id]
    assert shown(tenant, "?resource=daily_report") == [third.id]
    assert shown(tenant, f"?payer={api.wallet.address.lower()}&limit=2") == [third.id, second.id]
    assert shown(tenant, "?environment=live") == []


def shown(tenant: Controls, query: str) -> list[str]:
    return [one["id"] for one in tenant.get(f"/transactions{query}")["transactions"]]


def test_rules_are_put_and_taken_back(tenant: Controls, api: ApiClient) -> None:
    payer = api.wallet.address
    for target in ("text_summary", payer):
        tenant.call("PUT", f"/settlements/{target}", {"after_reads": 0, "to": "failed"})
        assert api.complete(api.buy()).json()["status"] == "failed"
        assert tenant.call("DELETE", f"/settlements/{target}").status_code == 204
        assert api.complete(api.buy()).json()["status"] == "succeeded"
    bought = api.buy()
    tenant.call("PUT", f"/settlements/{bought.id}", {"after_seconds": 5})
    assert api.complete(bought).status_code == 202
    assert tenant.get("/transactions?limit=1")["transactions"][0]["plan"]["after_seconds"] == 5


def test_payers_and_balances(tenant: Controls, api: ApiClient) -> None:
    address = api.wallet.address
    poor = {"address": address, "name": None, "balances": {"USDC": "1", "EURC": "1000000000"}}
    assert tenant.call("PUT", f"/balances/{address}", {"USDC": "1"}).json() == poor
    assert_error(api.access(proof=api.proof()), 402, "payment_required")
    tenant.call("PUT", f"/balances/{address}", {"USDC": "10000"})
    api.complete(api.buy())
    payers = {one["address"]: one for one in tenant.get("/payers")["payers"]}
    assert payers[address]["balances"]["USDC"] == "0"
    assert {one["name"] for one in payers.values()} == {None, *TEST_PAYERS}
    assert tenant.get("/payers?environment=live") == {"payers": []}


# The guard


def asked(main: Controls, headers: dict[str, str], path: str = "/_emulator/tenants") -> httpx.Response:
    return main.http.get(path, headers=headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}@evil.example"},
        {"Origin": "http://evil@127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {
            "Host": "evil.example:{port}",
            "Origin": "http://evil.example:{port}",
            "Sec-Fetch-Site": "same-origin",
        },
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "evil.example@127.0.0.1"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "127.0.0.1/evil.example"},
        {"Host": "192.0.2.1:{port}"},
        {"Host": "0.0.0.0:{port}"},
        {"Host": "[2001:db8::1]:{port}"},
        {"Host": "[::1"},
        {"Host": "127.0.0.1:x"},
        {"Host": ""},
    ],
)
@pytest.mark.parametrize("path", ["/", "/_emulator/tenants", "/_emulator/nothing"])
def test_who_may_not(main: Controls, headers: dict[str, str], path: str) -> None:
    port = str(main.http.base_url.port)
    told = {name: value.replace("{port}", port) for name, value in headers.items()}
    refused(asked(main, told, path), 403, "forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.8.9.1:99"},
        {"Host": "[::1]:{port}"},
        {"Host": "[::ffff:127.0.0.1]"},
        {"Origin": "http://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_who_may(main: Controls, headers: dict[str, str]) -> None:
    port = str(main.http.base_url.port)
    told = {name: value.replace("{port}", port) for name, value in headers.items()}
    assert asked(main, told).status_code == 200


@pytest.mark.parametrize(
    ("peer", "status"),
    [
        (None, 200),
        (("", 0), 200),
        (("127.0.0.1", 5), 200),
        (("::1", 5), 200),
        (("::ffff:127.0.0.1", 5), 200),
        (("192.0.2.7", 5), 403),
        (("::ffff:192.0.2.7", 5), 403),
        (("fe80::1%eth0", 5), 403),
    ],
)
def test_only_peers_of_this_machine(main: Controls, peer: tuple[str, int] | None, status: int) -> None:
    """As with --allow-remote: the service's API is for all, the control plane is not."""
    inner = app(main.tenants)

    async def from_there(scope: Scope, receive: Receive, send: Send) -> None:
        await inner({**scope, "client": peer}, receive, send)

    with TestClient(from_there, base_url="http://127.0.0.1", headers=bearer(TEST_KEY)) as client:
        answers = [client.get(path) for path in ("/_emulator", "/", "/merchant/v1/payers")]
    assert [answer.status_code for answer in answers] == [status, status, 200]


FORWARDED = [
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http"},
    {"X-Forwarded-For": "192.0.2.7"},
    {"X-Forwarded-For": "192.0.2.7, 127.0.0.1"},
    {"x-forwarded-for": ""},
    {"Forwarded": "for=127.0.0.1"},
    {"X-Real-IP": "127.0.0.1"},
]


@pytest.mark.parametrize("headers", FORWARDED, ids=repr)
@pytest.mark.parametrize("path", ["/", "/_emulator/tenants", "/_emulator/nothing"])
def test_what_a_proxy_forwarded_may_not(main: Controls, headers: dict[str, str], path: str) -> None:
    """Where it comes from is only what a header says."""
    refused(asked(main, headers, path), 403, "forbidden")


def test_the_service_itself_may_stand_behind_a_proxy(main: Controls) -> None:
    for headers in FORWARDED:
        answer = main.http.get("/merchant/v1/payers", headers=bearer(TEST_KEY) | headers)
        assert answer.status_code == 200


def test_a_page_elsewhere_changes_nothing(tenant: Controls) -> None:
    before = tenant.emulator.export()
    headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    path = f"/_emulator/tenants/{tenant.name}"
    refused(tenant.http.post(f"{path}/clock", content=b'{"advance": 60}', headers=headers), 403, "forbidden")
    refused(tenant.http.request("DELETE", path, headers=headers), 403, "forbidden")
    assert tenant.emulator.export() == before


# Two prefixes that never meet


@pytest.mark.parametrize(
    "path",
    [
        "//_emulator/tenants",
        "/merchant/v1/_emulator/tenants",
        "/merchant/v1/..%2F..%2F_emulator/tenants",
        "/merchant/v1/%2e%2e/%2e%2e/_emulator/tenants",
        "/merchant/v1//_emulator/tenants",
        "/_emulatorx",
        "/_Emulator/tenants",
        "/.%2F_emulator/tenants",
        "/%2F_emulator/tenants",
        "/x/../_emulator/tenants",
    ],
)
def test_no_way_from_the_api_to_the_control_plane(main: Controls, path: str) -> None:
    assert_error(raw(main, path), 404, "invalid_request")
    assert main.emulator.calls()[-1].request.path == path


@pytest.mark.parametrize(
    "path",
    [
        "/_emulator/merchant/v1/payers",
        "/_emulator/../merchant/v1/payers",
        "/_emulator/%2e%2e/merchant/v1/payers",
        "/_emulator/..%2Fmerchant/v1/payers",
        "/_emulator//merchant/v1/payers",
    ],
)
def test_no_way_from_the_control_plane_to_the_api(main: Controls, path: str) -> None:
    calls = main.emulator.calls()
    refused(raw(main, path), 404, "invalid_request")
    assert main.emulator.calls() == calls


def raw(main: Controls, path: str) -> httpx.Response:
    """The path exactly as written: httpx would tidy it."""
    connection = HTTPConnection(main.http.base_url.host, main.http.base_url.port)
    with closing(connection):
        connection.request("GET", path, headers=bearer(TEST_KEY))
        answer = connection.getresponse()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
