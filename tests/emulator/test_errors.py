"""spec: Errors: the shape of every error, unknown addresses, other methods, faults of the emulator."""

import json
import logging
from datetime import datetime

import pytest

from faregate.core.models import WireRequest
from faregate.emulator import Account, Emulator, Key
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import PaymentSettled, PaymentVerified
from faregate.x402.models import SignedPayment, Terms
from tests.support.headers import decode_header, encode_header

from .seller import ROOT, ApiClient, assert_error

TXN = "txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f"


@pytest.mark.parametrize(
    "path",
    [
        "/merchant/v1",
        "/merchant/v1/",
        "/merchant/v2/access",
        "/merchant/v1/access/",
        "/merchant/v1//access",
        "/merchant/v1/Access",
        "/merchant/v1/transactions/",
        f"/merchant/v1/transactions/{TXN}/",
        f"/merchant/v1/transactions/{TXN}/complete/",
        "/merchant/v1/transactions//complete",
        "/merchant/v1/resource-executions",
        f"/merchant/v1/resource-executions/{TXN}",
        "/x/merchant/v1/access",
    ],
)
def test_an_unknown_path_is_404_in_the_shape_of_the_spec(api: ApiClient, path: str) -> None:
    for method in ("GET", "POST"):
        response = api.http.request(method, path, headers={"Authorization": f"Bearer {api.key}"})
        assert_error(response, 404, "invalid_request")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/access", "POST"),
        ("/contracts", "GET"),
        ("/payers", "GET"),
        ("/resources", "GET"),
        ("/transactions", "GET"),
        (f"/transactions/{TXN}", "GET"),
        (f"/transactions/{TXN}/complete", "POST"),
        (f"/resource-executions/{TXN}/complete", "POST"),
    ],
)
def test_another_method_is_405_and_says_which_is_allowed(api: ApiClient, path: str, allowed: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - {allowed}:
        response = api.http.request(method, ROOT + path)
        assert_error(response, 405, "invalid_request")
        assert response.headers["allow"] == allowed
    assert api.http.head(ROOT + path).status_code == 405


def test_the_key_is_looked_at_before_the_request(api: ApiClient) -> None:
    assert_error(api.get("/payers?page=0", "svc_test_wrong"), 401, "unauthenticated")
    response = api.http.post(f"{ROOT}/access", content=b"{", headers={"Authorization": "Bearer x"})
    assert_error(response, 401, "unauthenticated")


def test_the_body_is_looked_at_before_the_transaction(api: ApiClient) -> None:
    path, proof = f"/transactions/{TXN}/complete", [("PAYMENT-SIGNATURE", api.proof())]
    assert_error(api.raw(path, b"{", proof), 400, "invalid_request")
    assert_error(api.raw(path, b"{}", proof), 422, "invalid_request")


class Broken:
    """Payments with a fault."""

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified:
        raise RuntimeError("a secret of the inside")

    def settle(self, payment: SignedPayment, terms: Terms, *, now: datetime) -> PaymentSettled:
        raise RuntimeError("a secret of the inside")


def test_a_fault_of_the_emulator_is_500_and_tells_nothing(
    api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    api.use_account(ledger=Broken())
    with caplog.at_level(logging.ERROR, "faregate.emulator"):
        message = assert_error(api.access(proof=api.proof()), 500, "internal_error")
    assert "secret" not in message
    assert "secret" in caplog.text
    assert api.listed("/transactions")["count"] == 0


def test_every_message_is_free_of_what_was_sent(api: ApiClient) -> None:
    body = api.access_body(settlement_asset="<script>", note="<script>")
    payment = decode_header(api.proof())
    for response in (
        api.post("/access", body),
        api.get("/transactions?status=<script>"),
        api.get("/payers?page=<script>"),
        api.get("/transactions/<script>"),
        api.access(proof="<script>"),
        api.access(
            proof=encode_header(payment | {"payload": {**payment["payload"], "signature": "<script>"}})
        ),
        api.access(proof=encode_header(payment | {"x402Version": "<script>"})),
    ):
        assert response.status_code >= 400
        assert "script" not in response.text


def test_every_answer_is_json(api: ApiClient) -> None:
    bought = api.buy()
    for response in (
        *(api.get(path) for path in ("/contracts", "/payers", "/resources", "/transactions")),
        api.get(f"/transactions/{bought.id}"),
        api.access("free_notes"),
        api.access(proof=bought.proof),
        api.complete(bought),
    ):
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"


def test_the_calls_are_remembered(api: ApiClient) -> None:
    api.access()
    api.get("/payers?page=0")
    api.get("/nothing", "svc_test_wrong")
    assert [(call.method, call.path, call.status) for call in api.emulator.calls()] == [
        ("POST", "/merchant/v1/access", 402),
        ("GET", "/merchant/v1/payers", 422),
        ("GET", "/merchant/v1/nothing", 404),
    ]


def test_only_so_many_calls_are_remembered() -> None:
    emulator = Emulator(Account(keys=(Key(key="svc_test_a"),), resources=builtin_account().resources))
    for _ in range(10_001):
        emulator.respond(WireRequest("GET", "/"))
    assert len(emulator.calls()) == 10_000


def test_headers_may_be_in_any_case() -> None:
    emulator = Emulator()
    for name in ("authorization", "AUTHORIZATION", "Authorization"):
        headers = ((name, "Bearer svc_test_emulator"),)
        response = emulator.respond(WireRequest("GET", "/merchant/v1/payers", headers))
        assert response.status == 200
        assert json.loads(response.body)["items"] == []
