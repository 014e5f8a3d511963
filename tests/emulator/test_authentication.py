"""spec: Authentication."""

import pytest

from faregate.emulator import LIVE_KEY, READ_ONLY_TEST_KEY, TEST_KEY, Account, Key
from faregate.rules.account import CAPABILITIES, Capability
from faregate.rules.builtin_account import builtin_account

from .seller import ROOT, ApiClient, assert_error

TXN = "txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"
REX = "rex_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"
CAPABILITY: dict[tuple[str, str], Capability] = {
    ("POST", "/access"): "access",
    ("GET", "/contracts"): "contracts:read",
    ("GET", "/payers"): "payers:read",
    ("POST", f"/resource-executions/{REX}/complete"): "executions:complete",
    ("GET", "/resources"): "resources:read",
    ("GET", "/transactions"): "transactions:read",
    ("GET", f"/transactions/{TXN}"): "transactions:read",
    ("POST", f"/transactions/{TXN}/complete"): "transactions:complete",
}
OPERATIONS = list(CAPABILITY)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_key_is_401_everywhere(api: ApiClient, method: str, path: str) -> None:
    response = api.http.request(method, ROOT + path)
    assert_error(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer svc_test_unknown",
        "Bearer svc_test_emulato",
        f"Bearer {TEST_KEY} x",
        f"Bearer {TEST_KEY.upper()}",
        f"Basic {TEST_KEY}",
        TEST_KEY,
        "",
    ],
)
def test_a_wrong_key_is_401(api: ApiClient, value: str) -> None:
    response = api.http.get(f"{ROOT}/payers", headers={"Authorization": value})
    assert_error(response, 401, "unauthenticated")


def test_two_authorization_headers_are_401(api: ApiClient) -> None:
    pair = ("Authorization", f"Bearer {TEST_KEY}")
    assert_error(api.http.get(f"{ROOT}/payers", headers=[pair, pair]), 401, "unauthenticated")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_bearer_scheme_is_case_insensitive(api: ApiClient, scheme: str) -> None:
    response = api.http.get(f"{ROOT}/payers", headers={"Authorization": f"{scheme} {TEST_KEY}"})
    assert response.status_code == 200


@pytest.mark.parametrize(("method", "path"), [pair for pair in OPERATIONS if pair[0] == "POST"])
def test_a_key_without_the_capability_is_403_before_the_body_is_read(
    api: ApiClient, method: str, path: str
) -> None:
    headers = {"Authorization": f"Bearer {READ_ONLY_TEST_KEY}"}
    response = api.http.request(method, ROOT + path, headers=headers, content=b"not json")
    assert_error(response, 403, "forbidden")


@pytest.mark.parametrize("path", ["/contracts", "/payers", "/resources", "/transactions"])
def test_a_read_only_key_may_read(api: ApiClient, path: str) -> None:
    assert api.get(path, READ_ONLY_TEST_KEY).status_code == 200


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_each_operation_has_its_own_capability(api: ApiClient, method: str, path: str) -> None:
    needed = CAPABILITY[method, path]
    others = tuple(one for one in CAPABILITIES if one != needed)
    keys = (Key(key="svc_test_needed", capabilities=(needed,)), Key(key="svc_test_rest", capabilities=others))
    api.use_account(Account(keys=keys, resources=builtin_account().resources))
    statuses = [
        api.http.request(method, ROOT + path, headers={"Authorization": f"Bearer {key.key}"}).status_code
        for key in keys
    ]
    assert statuses[0] != 403
    assert statuses[1] == 403


def test_the_payment_proof_does_not_authenticate_the_seller(api: ApiClient) -> None:
    proof = api.proof()
    response = api.http.post(f"{ROOT}/access", json=api.access_body(), headers={"PAYMENT-SIGNATURE": proof})
    assert_error(response, 401, "unauthenticated")


def test_the_key_selects_the_environment(api: ApiClient) -> None:
    test = {item["id"] for item in api.listed("/resources")["items"]}
    live = {item["id"] for item in api.get("/resources", LIVE_KEY).json()["items"]}
    assert test
    assert live
    assert not test & live


def test_live_keys_are_401_unless_allowed(api: ApiClient) -> None:
    api.use_account(allow_live=False)
    assert "live" in assert_error(api.get("/payers", LIVE_KEY), 401, "unauthenticated")
    assert api.get("/payers").status_code == 200
