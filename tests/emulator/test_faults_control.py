"""Faults and modes from outside: over the control plane, and from the command line."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from faregate.cli import main
from faregate.emulator import MODES, TEST_KEY, Emulator, Tenants, transport
from faregate.emulator.server import serve

from .seller import ROOT, bearer

PATH = "/_emulator/tenants/main/faults"


@pytest.fixture(scope="module")
def tenants() -> Tenants:
    return Tenants(Emulator())


@pytest.fixture(scope="module")
def served(tenants: Tenants) -> Iterator[httpx.Client]:
    with serve(tenants) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.fixture
def http(served: httpx.Client) -> Iterator[httpx.Client]:
    yield served
    assert served.delete(PATH).status_code == 204


def payers(http: httpx.Client, key: str = TEST_KEY) -> int:
    return http.get(f"{ROOT}/payers", headers=bearer(key)).status_code


def told(http: httpx.Client, path: str = PATH) -> Any:
    answer = http.get(path)
    assert answer.status_code == 200
    return answer.json()


def test_a_fault_is_set_strikes_and_is_gone(http: httpx.Client) -> None:
    fault = {"kind": "status", "status": 503, "retry_after": 2, "times": 2, "operation": "payers"}
    added = http.post(PATH, json=fault)
    assert added.status_code == 201
    assert added.json()["applied"] == 0
    assert added.json()["fault"] == {**fault, "when": "before", "seed": 0}
    assert payers(http) == 503
    [rule] = told(http)["faults"]
    assert rule == {**added.json(), "applied": 1}
    assert [payers(http), payers(http)] == [503, 200]
    assert told(http) == {"mode": "clean", "modes": list(MODES), "faults": []}


def test_always_is_null(http: httpx.Client) -> None:
    added = http.post(PATH, json={"kind": "garbage", "times": None})
    assert added.json()["fault"]["times"] is None
    assert http.post(PATH, json=added.json()["fault"]).status_code == 201


def test_one_is_taken_away(http: httpx.Client) -> None:
    first, second = (http.post(PATH, json={"kind": "status", "status": code}).json() for code in (500, 501))
    assert http.delete(f"{PATH}/{first['id']}").status_code == 204
    assert http.delete(f"{PATH}/{first['id']}").json()["code"] == "fault_not_found"
    assert [rule["id"] for rule in told(http)["faults"]] == [second["id"]]
    assert payers(http) == 501


def test_a_mode_replaces_what_there_was(http: httpx.Client) -> None:
    http.post(PATH, json={"kind": "status", "status": 500})
    answer = http.post(PATH, json={"mode": "reconcile-unavailable"})
    assert (answer.status_code, answer.json()["mode"], len(answer.json()["faults"])) == (
        201,
        "reconcile-unavailable",
        3,
    )
    assert http.post(PATH, json={"mode": "clean"}).json()["faults"] == []
    assert payers(http) == 200


def test_each_tenant_has_its_own(http: httpx.Client) -> None:
    key = "svc_test_tenant_apart"
    assert payers(http, key) == 200
    http.post("/_emulator/tenants/apart/faults", json={"kind": "status", "status": 500, "times": None})
    assert (payers(http), payers(http, key)) == (200, 500)
    assert told(http)["faults"] == []
    assert http.delete("/_emulator/tenants/apart/faults").status_code == 204
    assert payers(http, key) == 200


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"kind": "fire"}, "kind: Input should be 'latency', 'silence'"),
        ({"kind": "latency"}, "latency needs 'seconds'"),
        ({"mode": "chaos"}, "there is no mode 'chaos'; there are accept-then-time-out"),
        ({"mode": "clean", "kind": "cut"}, "kind: Extra inputs are not permitted"),
        ([], "should be an object"),
    ],
)
def test_a_mistake_is_an_error(http: httpx.Client, body: Any, complaint: str) -> None:
    refused = http.post(PATH, json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert complaint in refused.json()["message"]
    assert told(http)["faults"] == []


def test_a_tenant_that_is_not_there(http: httpx.Client) -> None:
    for method in ("GET", "POST", "DELETE"):
        refused = http.request(method, "/_emulator/tenants/nowhere/faults", json={})
        assert (refused.status_code, refused.json()["code"]) == (404, "tenant_not_found")


def test_the_command_line_begins_in_a_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []

    def run(emulator: Any, listener: socket.socket, **_: Any) -> None:
        served.append(emulator)
        listener.close()

    monkeypatch.setattr("faregate.emulator.server.run", run)
    assert main(["emulator", "--mode", "double-402"]) == 0
    with httpx.Client(transport=transport(served[0]), base_url="http://emulator") as client:
        assert payers(client) == 200
    assert getattr(served[0], "main", served[0]).faults.mode == "double-402"


def test_the_command_line_names_the_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulator", "--mode", "chaos"]) != 0
    assert "there are accept-then-time-out, 5xx-after-settle" in capsys.readouterr().err
