"""The client of one facilitator: what it sends, and what it makes of each answer."""

import json
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from examples.chain.facilitator import FacilitatorProcess
from x402.schemas import SettleRequest

from faregate.core.models import Response, WireRequest
from faregate.errors import ConfigurationError
from faregate.service.chain.facilitator import (
    FacilitatorClient,
    FacilitatorSettings,
    FacilitatorUnavailable,
    VerifyResult,
)
from faregate.x402.models import Terms
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.faulty_facilitator import FaultyFacilitator, hangs_before, is_huge_after
from tests.support.headers import encode_header
from tests.support.raw_server import Connection, serving_by_hand
from tests.support.replies import json_reply
from tests.support.waiting import PATIENCE

SELLER = "0xABababABaBAbaBABaBAbaBABABAbaBABaBABABaB"
TERMS = Terms(USDC, 10_000, SELLER, 300)
PAYMENT = ChainPayer().authorize(USDC, SELLER, 10_000)
HASH = "0x" + "1F" * 32
API_KEY = "an-api-key"


@contextmanager
def answering(
    status: int, body: object, asked: list[WireRequest] | None = None, **settings: Any
) -> Generator[FacilitatorClient]:
    """Give the client of a facilitator that always says this."""

    async def answer(connection: Connection, request: WireRequest) -> None:
        if asked is not None:
            asked.append(request)
        await connection.answer(json_reply(status, body))

    with serving_by_hand(answer) as port:
        client = FacilitatorClient(FacilitatorSettings(f"http://127.0.0.1:{port}", **settings))
        yield client
        client.close()


# What it makes of an answer


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, {"isValid": True, "payer": PAYMENT.payer}, VerifyResult(True)),
        (
            200,
            {"isValid": False, "invalidReason": "insufficient_funds"},
            VerifyResult(False, "insufficient_funds"),
        ),
        (400, {"isValid": False, "invalidReason": "invalid_payload"}, VerifyResult(False, "invalid_payload")),
        (200, {"isValid": False}, VerifyResult(False, "the payment was refused")),
        (
            200,
            {"isValid": False, "invalidReason": f"bad {PAYMENT.signature}"},
            VerifyResult(False, "bad ..."),
        ),
    ],
)
def test_a_verdict_is_read(status: int, body: object, verdict: VerifyResult) -> None:
    with answering(status, body) as client:
        assert client.verify(PAYMENT, TERMS) == verdict


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"isValid": False, "invalidReason": "insufficient_funds"}),
        (200, {"isValid": False, "invalidReason": "unexpected_verify_error"}),
        (400, {"isValid": False, "invalidReason": "invalid_network"}),
        (500, {"isValid": True}),
        (400, {"isValid": True}),
        (302, {"isValid": True}),
        (401, {"error": "unauthorized"}),
        (429, {}),
        (200, {"isValid": "true"}),
        (200, {"isValid": 1}),
        (200, {"isValid": None}),
        (200, {}),
        (200, [{"isValid": True}]),
        (200, b"<html>"),
        (200, b""),
    ],
)
def test_what_is_no_verdict_decides_nothing(status: int, body: object) -> None:
    with answering(status, body) as client, pytest.raises(FacilitatorUnavailable, match=f"HTTP {status}"):
        client.verify(PAYMENT, TERMS)


@pytest.mark.parametrize(
    ("status", "body", "found", "note"),
    [
        (200, {"success": True, "transaction": HASH}, HASH.lower(), "HTTP 200 success"),
        (
            500,
            {"success": False, "errorReason": "settlement_pending", "transaction": HASH},
            HASH.lower(),
            "HTTP 500 settlement_pending",
        ),
        (
            200,
            {"success": False, "errorReason": "nonce_used", "transaction": ""},
            None,
            "HTTP 200 nonce_used",
        ),
        (200, {"success": True, "transaction": HASH + "00"}, None, "HTTP 200 success"),
        (200, {"success": True, "transaction": [HASH]}, None, "HTTP 200 success"),
        (402, b"{", None, "HTTP 402 without a reason"),
        (
            400,
            {
                "errorType": "invalid_request",
                "errorMessage": "'paymentPayload' is invalid",
                "correlationId": "7",
            },
            None,
            "HTTP 400 invalid_request; 'paymentPayload' is invalid",
        ),
        (401, {"code": 401, "message": "Unauthorized"}, None, "HTTP 401 Unauthorized"),
        (
            400,
            {"success": False, "errorReason": f"x {PAYMENT.signature}\n", "errorMessage": PAYMENT.signature},
            None,
            "HTTP 400 x ...; ...",
        ),
    ],
)
def test_a_settlement_is_only_noted(status: int, body: object, found: str | None, note: str) -> None:
    with answering(status, body) as client:
        sent = client.settle(PAYMENT, TERMS)
        assert (sent.transaction_hash, sent.note) == (found, f"{client.name}: {note}")


@pytest.mark.parametrize("operation", ["verify", "settle", "supported"])
def test_it_does_not_wait_longer_than_it_is_told(operation: str) -> None:
    faulty = FaultyFacilitator("http://127.0.0.1:9")
    faulty.fail_always(operation, hangs_before)
    long = 8 * PATIENCE
    verify, settle, supported = (
        0.3 if operation == one else long for one in ("verify", "settle", "supported")
    )
    with faulty.serving() as url:
        settings = FacilitatorSettings(
            url, verify_seconds=verify, settle_seconds=settle, supported_seconds=supported
        )
        client, began = FacilitatorClient(settings), time.monotonic()
        if operation == "settle":
            assert "no answer" in client.settle(PAYMENT, TERMS).note
        else:
            with pytest.raises(FacilitatorUnavailable, match="no answer"):
                client.verify(PAYMENT, TERMS) if operation == "verify" else client.list_networks()
        assert time.monotonic() - began < long / 2, "it waited as long as for another operation"


def test_nobody_there_and_an_answer_without_end() -> None:
    client = FacilitatorClient(FacilitatorSettings("http://127.0.0.1:9"))
    with pytest.raises(FacilitatorUnavailable, match=r"^127\.0\.0\.1:9: no answer: ConnectionRefusedError"):
        client.verify(PAYMENT, TERMS)
    assert client.settle(PAYMENT, TERMS).note.startswith("127.0.0.1:9: no answer: ConnectionRefusedError")
    faulty = FaultyFacilitator("http://127.0.0.1:9")
    faulty.fail("settle", is_huge_after)
    with faulty.serving() as url:
        sent = FacilitatorClient(FacilitatorSettings(url)).settle(PAYMENT, TERMS)
    assert sent.transaction_hash is None
    assert sent.note.endswith("the reply has more than 1048576 bytes")


def test_networks_are_those_of_our_kind_of_payment() -> None:
    kinds = [
        {"x402Version": 2, "scheme": "exact", "network": "eip155:8453"},
        {"x402Version": 1, "scheme": "exact", "network": "base"},
        {"x402Version": 2, "scheme": "upto", "network": "eip155:1"},
        {"x402Version": 2, "scheme": "exact", "network": 5},
        "nonsense",
    ]
    with answering(200, {"kinds": kinds}) as client:
        assert client.list_networks() == {"eip155:8453"}
    for status, body in ((200, {"kinds": None}), (403, {"kinds": kinds}), (200, b"-")):
        with answering(status, body) as client, pytest.raises(FacilitatorUnavailable):
            client.list_networks()
    with answering(404, b"-") as client, pytest.raises(FacilitatorUnavailable, match="is its path right"):
        client.list_networks()


# What it sends


def test_the_request_is_that_of_the_official_models() -> None:
    asked: list[WireRequest] = []
    with answering(200, {"isValid": True}, asked) as client:
        client.verify(PAYMENT, TERMS)
        client.settle(PAYMENT, TERMS)
    assert [(one.method, one.path) for one in asked] == [("POST", "/verify"), ("POST", "/settle")]
    bodies = [one.body or b"" for one in asked]
    assert bodies[0] == bodies[1]
    read = SettleRequest.model_validate_json(bodies[0])
    assert read.payment_payload.accepted == read.payment_requirements
    assert read.payment_requirements.extra == {"name": "USDC", "version": "2"}
    assert json.loads(bodies[0])["x402Version"] == json.loads(bodies[0])["paymentPayload"]["x402Version"] == 2


def test_what_a_payer_echoes_for_catalogues_is_passed_on() -> None:
    asked: list[WireRequest] = []
    echoed = {"resource": {"url": "https://seller.example/report"}, "extensions": {"bazaar": {"info": {}}}}
    header = encode_header({"accepted": {}, "note": "for the seller", **echoed})
    with answering(200, {"isValid": True}, asked) as client:
        client.verify(replace(PAYMENT, header=header), TERMS)
        client.verify(replace(PAYMENT, header=encode_header({"resource": 1, "extensions": None})), TERMS)
        client.verify(replace(PAYMENT, header=""), TERMS)

    first, *others = (json.loads(one.body or b"")["paymentPayload"] for one in asked)
    assert {name: first[name] for name in echoed} == echoed
    assert "note" not in first
    assert all(echoed.keys().isdisjoint(one) for one in others)


def test_each_call_is_signed_for_its_own_url() -> None:
    asked: list[WireRequest] = []

    def authenticate(method: str, url: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {method}.{url}"}

    answer = {"isValid": True, "kinds": []}
    headers = {"X-Api-Key": API_KEY}
    with answering(200, answer, asked, authenticate=authenticate, headers=headers) as client:
        client.verify(PAYMENT, TERMS)
        client.settle(PAYMENT, TERMS)
        client.list_networks()
    sent = [{name.lower(): value for name, value in one.headers} for one in asked]
    host = sent[0]["host"]
    assert [one["authorization"] for one in sent] == [
        f"Bearer POST.http://{host}/verify",
        f"Bearer POST.http://{host}/settle",
        f"Bearer GET.http://{host}/supported",
    ]
    assert {one["x-api-key"] for one in sent} == {API_KEY}


def _fail_to_sign(_method: str, _url: str) -> Mapping[str, str]:
    raise ValueError(f"cannot sign with {API_KEY}")


def _make_two_headers_of_one(_method: str, _url: str) -> Mapping[str, str]:
    return {"Authorization": f"{API_KEY}\r\nHost: elsewhere"}


@pytest.mark.parametrize("authenticate", [_fail_to_sign, _make_two_headers_of_one])
def test_a_call_that_cannot_be_signed_is_not_made(authenticate: Any) -> None:
    asked: list[WireRequest] = []
    with answering(200, {"isValid": True}, asked, authenticate=authenticate) as client:
        with pytest.raises(FacilitatorUnavailable, match="could not be signed: ValueError") as caught:
            client.verify(PAYMENT, TERMS)
        sent = client.settle(PAYMENT, TERMS)
    assert sent.transaction_hash is None
    assert "could not be signed" in sent.note
    assert API_KEY not in f"{caught.value} {sent}"
    assert asked == []


class _BrokenTransport:
    """A transport of the seller's own that says too much."""

    def send(self, method: str, url: str, headers: object, body: bytes | None, seconds: float) -> Response:
        raise RuntimeError(f"{list(headers)} {body!r}")  # type: ignore[call-overload]

    def close(self) -> None: ...


def test_no_error_or_repr_tells_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    settings = FacilitatorSettings("http://127.0.0.1:9/path-key", headers={"X-Api-Key": API_KEY})
    client = FacilitatorClient(settings, transport=_BrokenTransport())
    with pytest.raises(FacilitatorUnavailable) as caught:
        client.verify(PAYMENT, TERMS)
    told = f"{caught.value!r} {client.settle(PAYMENT, TERMS)} {settings} {client!r} {PAYMENT} {caplog.text}"
    assert "RuntimeError" in told
    assert API_KEY not in told
    assert PAYMENT.signature[2:] not in told


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (FacilitatorSettings("ftp://x"), "facilitator URL is the http"),
        (FacilitatorSettings("http://user:secret@x"), "without user"),
        (FacilitatorSettings("http://x.example", headers={"X-Api-Key": API_KEY}), "over https only"),
        (FacilitatorSettings("http://x.example", authenticate=_fail_to_sign), "over https only"),
        (FacilitatorSettings("https://x", headers={"X-Api-Key": f"{API_KEY}\n"}), "X-Api-Key"),
        (FacilitatorSettings("https://x", verify_seconds=0), "time limits"),
        (FacilitatorSettings("https://x", settle_seconds=float("inf")), "time limits"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: FacilitatorSettings, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        FacilitatorClient(settings)
    assert "secret" not in str(caught.value)
    assert API_KEY not in str(caught.value)


# The official facilitator


def test_the_official_facilitators_verify_and_settle(
    chain: LocalChain, any_facilitator: FacilitatorProcess
) -> None:
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 50_000)
    client = FacilitatorClient(FacilitatorSettings(any_facilitator.url))
    payment = payer.authorize(USDC, SELLER, 10_000)
    assert client.list_networks() == {USDC.network}
    assert client.verify(payment, TERMS) == VerifyResult(True)
    sent = client.settle(payment, TERMS)
    assert chain.get_balance(USDC, SELLER) == 10_000
    receipt = chain.get_receipt(sent.transaction_hash or "")
    assert receipt is not None
    assert receipt["status"] == "0x1"
    for bad in (payment, ChainPayer().authorize(USDC, SELLER, 10_000)):
        verdict = client.verify(bad, TERMS)
        assert not verdict.is_valid
        assert verdict.reason.startswith("invalid_exact_evm_")


# What it counts


@pytest.mark.parametrize(
    ("status", "body", "failures"),
    [
        pytest.param(200, {"success": True, "transaction": HASH, "isValid": True}, 0, id="good"),
        pytest.param(200, {"success": False, "isValid": False, "invalidReason": "funds"}, 0, id="refused"),
        pytest.param(503, {"isValid": False}, 2, id="in-trouble"),
        pytest.param(200, ["no", "object"], 2, id="no-object"),
    ],
)
def test_calls_and_failures_are_counted(status: int, body: object, failures: int) -> None:
    with answering(status, body) as client:
        with suppress(FacilitatorUnavailable):
            client.verify(PAYMENT, TERMS)
        client.settle(PAYMENT, TERMS)
        assert (client.requests, client.failures) == (2, failures)
        assert client.seconds > 0


def test_a_pending_settlement_that_is_answered_500_is_no_failure() -> None:
    with answering(500, {"success": False, "errorReason": "pending", "transaction": HASH}) as client:
        client.settle(PAYMENT, TERMS)
        assert (client.requests, client.failures) == (1, 0)


def test_a_call_that_is_not_answered_is_a_failure() -> None:
    client = FacilitatorClient(FacilitatorSettings("http://127.0.0.1:1"))
    client.settle(PAYMENT, TERMS)
    with pytest.raises(FacilitatorUnavailable):
        client.verify(PAYMENT, TERMS)
    with pytest.raises(FacilitatorUnavailable):
        client.list_networks()
    assert (client.requests, client.failures) == (3, 3)
    client.close()
