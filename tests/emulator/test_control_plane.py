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
from .seller import Shop, assert_error, bearer


@pytest.fixture(scope="module")
def main() -> Iterator[Controls]:
    with served() as controls:
        yield controls


@pytest.fixture
def world(main: Controls, request: pytest.FixtureRequest) -> Controls:
    return Controls(main.http, main.worlds, "".join(c if c.isalnum() else "-" for c in request.node.name))


@pytest.fixture
def shop(world: Controls) -> Shop:
    return world.shop()


# What it tells of itself


def test_it_lists_its_addresses(main: Controls) -> None:
    response = main.http.get("/_emulator")
    told = response.json()
    assert told["emulator"] == response.headers["faregate-emulator"]
    lines = {(one["method"], one["path"]): one["about"] for one in told["addresses"]}
    assert all(lines.values())
    one = "/_emulator/worlds/{name}"
    assert {
        *{
            ("GET", "/_emulator"),
            ("GET", "/_emulator/worlds"),
            ("POST", "/_emulator/worlds"),
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
        main.http.get(path) for path in ("/", "/_emulator/worlds", "/_emulator/no", "/merchant/v1/payers")
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 401]
    assert len({answer.headers["faregate-emulator"] for answer in answers}) == 1
    assert all(len(answer.headers.get_list("faregate-emulator")) == 1 for answer in answers)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/_emulator/nothing", 404, "invalid_request"),
        ("PATCH", "/_emulator/worlds", 405, "invalid_request"),
        ("GET", "/_emulator/worlds/nobody/clock", 404, "world_not_found"),
        ("POST", "/_emulator/worlds/nobody/reset", 404, "world_not_found"),
        ("GET", "/_emulator/worlds/main/transactions?environment=prod", 422, "invalid_request"),
        ("GET", "/_emulator/worlds/main/transactions?limit=0", 422, "invalid_request"),
        ("GET", "/_emulator/worlds/main/transactions?page=2", 422, "invalid_request"),
        ("GET", "/_emulator/worlds/main/payers?environment=prod", 422, "invalid_request"),
        ("POST", "/_emulator/worlds/main/transactions/txn_1/settle", 404, "transaction_not_found"),
        ("POST", "/_emulator/worlds/main/transactions/txn_1/fail", 404, "transaction_not_found"),
        ("POST", "/_emulator/worlds/main/snapshots/none/restore", 404, "snapshot_not_found"),
        ("DELETE", "/_emulator/worlds/main/settlements/no_such", 422, "invalid_request"),
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
        ("PUT", "/state", {"version": 1, "test": {"resources": [{}]}}, "test.resources.0.key: "),
        ("PUT", "/settlements/*", {"after_reads": 1, "manual": True}, "exactly one"),
        ("PUT", "/settlements/no_such", {"manual": True}, "no resource here"),
        ("PUT", "/balances/me", {"USDC": "1"}, "not an address"),
        ("PUT", f"/balances/0x{'1' * 40}", {"USDC": "-1"}, "USDC: "),
        ("PUT", f"/balances/0x{'1' * 40}", {"GOLD": "1"}, "GOLD"),
        ("POST", "", None, ""),
    ],
)
def test_a_wrong_body_is_told(world: Controls, method: str, path: str, body: object, words: str) -> None:
    assert world.emulator.calls() == []
    if not path:
        response = world.http.put(f"/_emulator/worlds/{world.name}/state", content=b"{")
    else:
        response = world.call(method, path, body)
    assert words in refused(response, 422, "invalid_request")


# Time


def test_the_clock(world: Controls) -> None:
    assert world.emulator.clock.mode == "frozen"
    assert world.get("/clock") == {"now": "2026-01-01T00:00:00Z", "mode": "frozen", "rate": 0.0}
    advanced = world.call("POST", "/clock", {"advance": 1.5}).json()
    assert advanced["now"] == "2026-01-01T00:00:01.500000Z"
    assert world.get("/clock") == advanced
    moment = "2026-02-01T00:00:00Z"
    assert world.call("POST", "/clock", {"freeze": moment}).json()["now"] == moment
    running = world.call("POST", "/clock", {"run": 60}).json()
    assert (running["mode"], running["rate"]) == ("scaled", 60)
    assert world.call("POST", "/clock", {"run": 1}).json()["mode"] == "real"
    frozen = world.call("POST", "/clock", {"freeze": None}).json()
    assert frozen["mode"] == "frozen"
    assert datetime.fromisoformat(frozen["now"]) > datetime.fromisoformat(moment)
    assert world.get("/clock") == frozen


def test_what_falls_due_settles_when_time_is_told_to_pass(world: Controls, shop: Shop) -> None:
    shop.wallet = Wallet.test("slow", clock=shop.clock)
    bought = shop.buy()
    assert shop.complete(bought).status_code == 202
    world.call("POST", "/clock", {"advance": 2})
    (shown,) = world.get("/transactions")["transactions"]
    assert shown["status"] == "succeeded"
    assert shop.transaction(bought)["status"] == "succeeded"


# State


def test_reset(world: Controls, shop: Shop) -> None:
    before = world.get("/state")
    shop.complete(shop.buy())
    world.call("POST", "/clock", {"advance": 60})
    world.call("POST", "/faults", {"mode": "double-402"})
    assert world.call("POST", "/reset").status_code == 204
    assert world.get("/state") == before
    assert world.emulator.calls() == []
    assert world.get("/faults")["faults"] == []


def test_a_state_document_goes_from_one_world_to_another(world: Controls, shop: Shop) -> None:
    bought = shop.buy()
    document = world.get("/state")
    other = Controls(world.http, world.worlds, f"{world.name}-other")
    seller = other.shop()
    assert other.call("PUT", "/state", document).status_code == 204
    assert other.get("/state") == document
    assert seller.complete(bought).json()["status"] == "succeeded"
    assert shop.transaction(bought)["status"] == "authorized"


def test_snapshots(world: Controls, shop: Shop) -> None:
    bought = shop.buy()
    assert world.call("POST", "/snapshots", {"name": "open"}).json() == {"name": "open"}
    assert world.call("POST", "/snapshots").json() == {"name": "snapshot-1"}
    assert world.get("/snapshots") == {"snapshots": ["open", "snapshot-1"]}
    assert shop.complete(bought).json()["status"] == "succeeded"
    assert world.call("POST", "/snapshots/open/restore").status_code == 204
    assert shop.transaction(bought)["status"] == "authorized"


# Payments


def test_payments_are_settled_and_failed(world: Controls, shop: Shop) -> None:
    assert world.call("PUT", "/settlements/*", {"manual": True}).status_code == 204
    first, second, third = shop.buy(), shop.buy(), shop.buy("daily_report")
    for bought in (first, second):
        assert shop.complete(bought).status_code == 202
    assert "has not completed" in refused(
        world.call("POST", f"/transactions/{third.id}/settle"), 422, "invalid_request"
    )
    settled = world.call("POST", f"/transactions/{first.id}/settle").json()
    assert (settled["status"], settled["outcome"]) == ("succeeded", "succeeded")
    assert world.call("POST", f"/transactions/{second.id}/fail").json()["status"] == "failed"
    refused(world.call("POST", f"/transactions/{second.id}/settle"), 422, "invalid_request")
    assert shop.complete(second).json()["status"] == "failed"
    statuses = [one["status"] for one in world.get("/transactions")["transactions"]]
    assert statuses == ["authorized", "failed", "succeeded"]
    assert shown(world, "?status=failed") == [second.id]
    assert shown(world, "?resource=daily_report") == [third.id]
    assert shown(world, f"?payer={shop.wallet.address.lower()}&limit=2") == [third.id, second.id]
    assert shown(world, "?environment=live") == []


def shown(world: Controls, query: str) -> list[str]:
    return [one["id"] for one in world.get(f"/transactions{query}")["transactions"]]


def test_rules_are_put_and_taken_back(world: Controls, shop: Shop) -> None:
    payer = shop.wallet.address
    for target in ("text_summary", payer):
        world.call("PUT", f"/settlements/{target}", {"after_reads": 0, "to": "failed"})
        assert shop.complete(shop.buy()).json()["status"] == "failed"
        assert world.call("DELETE", f"/settlements/{target}").status_code == 204
        assert shop.complete(shop.buy()).json()["status"] == "succeeded"
    bought = shop.buy()
    world.call("PUT", f"/settlements/{bought.id}", {"after_seconds": 5})
    assert shop.complete(bought).status_code == 202
    assert world.get("/transactions?limit=1")["transactions"][0]["plan"]["after_seconds"] == 5


def test_payers_and_balances(world: Controls, shop: Shop) -> None:
    address = shop.wallet.address
    poor = {"address": address, "name": None, "balances": {"USDC": "1", "EURC": "1000000000"}}
    assert world.call("PUT", f"/balances/{address}", {"USDC": "1"}).json() == poor
    assert_error(shop.access(proof=shop.proof()), 402, "payment_required")
    world.call("PUT", f"/balances/{address}", {"USDC": "10000"})
    shop.complete(shop.buy())
    payers = {one["address"]: one for one in world.get("/payers")["payers"]}
    assert payers[address]["balances"]["USDC"] == "0"
    assert {one["name"] for one in payers.values()} == {None, *TEST_PAYERS}
    assert world.get("/payers?environment=live") == {"payers": []}


# The guard


def asked(main: Controls, headers: dict[str, str], path: str = "/_emulator/worlds") -> httpx.Response:
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
@pytest.mark.parametrize("path", ["/", "/_emulator/worlds", "/_emulator/nothing"])
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
    inner = app(main.worlds)

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
@pytest.mark.parametrize("path", ["/", "/_emulator/worlds", "/_emulator/nothing"])
def test_what_a_proxy_forwarded_may_not(main: Controls, headers: dict[str, str], path: str) -> None:
    """Where it comes from is only what a header says."""
    refused(asked(main, headers, path), 403, "forbidden")


def test_the_service_itself_may_stand_behind_a_proxy(main: Controls) -> None:
    for headers in FORWARDED:
        answer = main.http.get("/merchant/v1/payers", headers=bearer(TEST_KEY) | headers)
        assert answer.status_code == 200


def test_a_page_elsewhere_changes_nothing(world: Controls) -> None:
    before = world.emulator.export()
    headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    path = f"/_emulator/worlds/{world.name}"
    refused(world.http.post(f"{path}/clock", content=b'{"advance": 60}', headers=headers), 403, "forbidden")
    refused(world.http.request("DELETE", path, headers=headers), 403, "forbidden")
    assert world.emulator.export() == before


# Two prefixes that never meet


@pytest.mark.parametrize(
    "path",
    [
        "//_emulator/worlds",
        "/merchant/v1/_emulator/worlds",
        "/merchant/v1/..%2F..%2F_emulator/worlds",
        "/merchant/v1/%2e%2e/%2e%2e/_emulator/worlds",
        "/merchant/v1//_emulator/worlds",
        "/_emulatorx",
        "/_Emulator/worlds",
        "/.%2F_emulator/worlds",
        "/%2F_emulator/worlds",
        "/x/../_emulator/worlds",
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
