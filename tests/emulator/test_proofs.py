"""Whatever a payer sends as proof: 402 with a reason that can be read, never a 500, and nothing lost."""

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.x402.tokens import TOKENS
from tests.support.headers import decode_header, encode_header

from .seller import ApiClient, Json, assert_error

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def refused(api: ApiClient, proof: str, resource: str = "text_summary") -> str:
    """Access refuses this proof; gives the reason, which the instructions repeat."""
    response = api.access(resource, proof)
    reason = assert_error(response, 402, "payment_required")
    assert decode_header(response.headers["payment-required"])["error"] == reason
    assert api.listed("/transactions")["count"] == 0
    return reason


UNREADABLE = {
    "empty": "",
    "no base64": "%%%",
    "url-safe alphabet": base64.urlsafe_b64encode(b'{"a": "\xff\xfe?>"}').decode(),
    "no padding": encode_header({"a": 11}).rstrip("=") + "A",
    "not utf-8": base64.b64encode(b'{"a": "\xff"}').decode(),
    "utf-16": base64.b64encode('{"x402Version": 2}'.encode("utf-16")).decode(),
    "not json": base64.b64encode(b"{").decode(),
    "a list": encode_header([]),
    "a number": encode_header(7),
    "deep": base64.b64encode(b"[" * 9000).decode(),
    "long number": base64.b64encode(b'{"x402Version": ' + b"9" * 5000 + b"}").decode(),
    "too long": encode_header({"a": "a" * 16_000}),
}


@pytest.mark.parametrize("strange", ["!", "-", "_", ".", "=", ":"])
def test_a_good_proof_that_is_not_standard_base64_is_402(api: ApiClient, strange: str) -> None:
    """A lenient reader passes over what it does not know, and finds a good payment."""
    good = api.proof()
    unpadded = good.rstrip("=")
    for proof in (good[:8] + strange + good[8:], good + strange, unpadded[:-4] + strange * 4 + unpadded[-4:]):
        assert "base64" in refused(api, proof)
    if unpadded != good:
        refused(api, unpadded)
    assert api.access(proof=good).status_code == 200


@pytest.mark.parametrize("proof", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_proof_is_402(api: ApiClient, proof: str) -> None:
    assert "proof" in refused(api, proof)


CHANGES: list[tuple[tuple[str, ...], Any, str]] = [
    (("x402Version",), 1, "x402Version"),
    (("x402Version",), "2", "x402Version"),
    (("x402Version",), 2.0, "x402Version"),
    (("x402Version",), True, "x402Version"),
    (("x402Version",), None, "x402Version"),
    (("accepted",), None, "accepted"),
    (("accepted",), [], "accepted"),
    (("accepted", "scheme"), "upto", "accepted.scheme"),
    (("accepted", "scheme"), None, "accepted.scheme"),
    (("accepted", "network"), "eip155:8453", "accepted.network"),
    (("accepted", "asset"), TOKENS["test", "EURC"].address, "accepted.asset"),
    (("accepted", "amount"), "9999", "accepted.amount"),
    (("accepted", "amount"), 10000, "accepted.amount"),
    (("accepted", "payTo"), "0x" + "11" * 20, "accepted.payTo"),
    (("accepted", "extra"), None, "accepted.extra"),
    (("accepted", "extra"), [], "accepted.extra"),
    (("accepted", "extra", "challenge"), None, "accepted.extra.challenge"),
    (("accepted", "extra", "challenge"), 7, "accepted.extra.challenge"),
    (("accepted", "extra", "challenge"), "ab" * 31, "accepted.extra.challenge"),
    (("accepted", "extra", "challenge"), "AB" * 32, "accepted.extra.challenge"),
    (("payload",), None, "payload"),
    (("payload",), "text", "payload"),
    (("payload", "authorization"), None, "authorization"),
    (("payload", "authorization", "from"), "0x11", "from"),
    (("payload", "authorization", "from"), 7, "from"),
    (("payload", "authorization", "from"), "0x" + "\uff11" * 40, "from"),
    (("payload", "authorization", "to"), "0x" + "11" * 20, "must pay"),
    (("payload", "authorization", "to"), None, "to"),
    (("payload", "authorization", "value"), "9999", "exactly 10000"),
    (("payload", "authorization", "value"), "10001", "exactly 10000"),
    (("payload", "authorization", "value"), "010000", "value"),
    (("payload", "authorization", "value"), "-1", "value"),
    (("payload", "authorization", "value"), "1e4", "value"),
    (("payload", "authorization", "value"), 10000, "value"),
    (("payload", "authorization", "value"), str(1 << 256), "256 bits"),
    (("payload", "authorization", "validAfter"), "99999999999", "validAfter"),
    (("payload", "authorization", "validAfter"), "", "validAfter"),
    (("payload", "authorization", "validBefore"), "1", "validBefore"),
    (("payload", "authorization", "validBefore"), "99999999999", "at most 660 seconds"),
    (("payload", "authorization", "validBefore"), None, "validBefore"),
    (("payload", "authorization", "nonce"), "0x" + "11" * 31, "nonce"),
    (("payload", "authorization", "nonce"), "0x" + "11" * 32, "signature"),
    (("payload", "authorization", "nonce"), "11" * 32, "nonce"),
    (("payload", "signature"), None, "signature"),
    (("payload", "signature"), "0x", "signature"),
    (("payload", "signature"), "0x" + "00" * 65, "signature"),
    (("payload", "signature"), "0x" + "ff" * 64 + "1b", "signature"),
    (("payload", "signature"), "0x" + "11" * 64, "signature"),
    (("payload", "signature"), "0x" + "11" * 66, "signature"),
    (("payload", "signature"), "0x" + "11" * 4097, "signature"),
    (("payload", "signature"), "0x" + "11" * 9000, "longer than"),
]


@pytest.mark.parametrize(
    ("path", "value", "word"), CHANGES, ids=[f"{'.'.join(p)}={v!r:.20}" for p, v, _ in CHANGES]
)
def test_a_changed_proof_is_402_and_says_why(
    api: ApiClient, path: tuple[str, ...], value: Any, word: str
) -> None:
    good = api.proof()
    assert word in refused(api, changed(good, path, value))
    assert api.access(proof=good).status_code == 200


@pytest.mark.parametrize("path", [path for path, value, _ in CHANGES if value is None])
def test_a_proof_with_a_part_missing_is_402(api: ApiClient, path: tuple[str, ...]) -> None:
    payload = decode_header(api.proof())
    holder = payload
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    assert path[-1] in refused(api, encode_header(payload))


def test_the_signature_of_another_wallet_is_402(api: ApiClient) -> None:
    theirs = decode_header(Wallet(clock=api.clock).pay(api.instructions()))
    stolen = changed(encode_header(theirs), ("payload", "authorization", "from"), api.wallet.address)
    assert "signature" in refused(api, stolen)


def test_a_signature_has_one_form(api: ApiClient) -> None:
    """Neither the mirrored `s` nor a `v` of 0 or 1: a token contract takes only one of them."""
    good = api.proof()
    signature = bytes.fromhex(decode_header(good)["payload"]["signature"][2:])
    mirrored = (ORDER - int.from_bytes(signature[32:64], "big")).to_bytes(32, "big")
    for other in (
        signature[:32] + mirrored + bytes([55 - signature[64]]),
        signature[:64] + bytes([signature[64] - 27]),
    ):
        assert "signature" in refused(api, changed(good, ("payload", "signature"), "0x" + other.hex()))


@pytest.mark.parametrize("token", [("test", "EURC"), ("live", "USDC")])
def test_a_payment_in_another_token_or_a_live_one_is_402(api: ApiClient, token: Any) -> None:
    """The EIP-712 domain belongs to the token: the signature of one is none for the other."""
    payload = decode_header(api.proof())
    authorization = payload["payload"]["authorization"]
    payload["payload"]["signature"] = api.wallet.sign(authorization, TOKENS[token])
    assert "signature" in refused(api, encode_header(payload))


def test_valid_before_must_be_six_seconds_ahead(api: ApiClient) -> None:
    proof = api.proof()
    api.clock.advance(54.001)
    assert "6 seconds" in refused(api, proof)


def test_six_seconds_ahead_are_enough(api: ApiClient) -> None:
    proof = api.proof()
    api.clock.advance(54)
    assert api.access(proof=proof).status_code == 200


@pytest.mark.parametrize(("ahead", "status"), [(660, 200), (661, 402)])
def test_valid_before_may_be_ten_minutes_beyond_the_timeout(api: ApiClient, ahead: int, status: int) -> None:
    """A payer's clock may be ahead; a later end would keep an unpaid transaction open for as long."""
    payload = decode_header(api.proof())
    authorization = payload["payload"]["authorization"]
    authorization["validBefore"] = str(int(api.clock().timestamp()) + ahead)
    payload["payload"]["signature"] = api.wallet.sign(authorization, TOKENS["test", "USDC"])
    response = api.access(proof=encode_header(payload))
    assert response.status_code == status
    assert ("at most 660 seconds" in response.text) == (status == 402)


def test_valid_after_may_be_now(api: ApiClient) -> None:
    now = int(api.clock().timestamp())
    payload = decode_header(api.proof())
    authorization = payload["payload"]["authorization"]
    authorization["validAfter"] = str(now + 1)
    payload["payload"]["signature"] = api.wallet.sign(authorization, TOKENS["test", "USDC"])
    assert "validAfter" in refused(api, encode_header(payload))
    api.clock.advance(1)
    assert api.access(proof=encode_header(payload)).status_code == 200


def test_unknown_properties_of_a_proof_are_ignored(api: ApiClient) -> None:
    payload = decode_header(api.proof()) | {"extensions": {"a": {}}, "more": 1}
    payload["accepted"]["extra"]["more"] = {"a": 1}
    payload["accepted"]["more"] = 1
    assert api.access(proof=encode_header(payload)).status_code == 200


def changed(proof: str, path: tuple[str, ...], value: Any) -> str:
    payload = copy.deepcopy(decode_header(proof))
    holder: Json = payload
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return encode_header(payload)


# What follows is thrown at `respond` itself, for speed: the same code that answers over HTTP.

EMULATOR = Emulator()
GOOD = Wallet()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(sorted({path for path, _, _ in CHANGES}))
quick = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def ask(proof: str | None) -> Response:
    body = {
        "revision_id": EMULATOR.revision_id("text_summary"),
        "resource": {"url": "https://seller.example/a", "mime_type": "text/plain"},
        "settlement_asset": "USDC",
    }
    headers = [("Authorization", f"Bearer {TEST_KEY}")]
    if proof is not None:
        headers.append(("PAYMENT-SIGNATURE", proof))
    request = WireRequest("POST", "/merchant/v1/access", tuple(headers), json.dumps(body).encode())
    return EMULATOR.respond(request)


def assert_refused(proof: str) -> None:
    response = ask(proof)
    assert response.status == 402
    assert json.loads(response.body)["code"] == "payment_required"
    assert response.first("payment-required")


@quick
@given(st.text(st.characters(max_codepoint=255)))
def test_any_text_is_402(text: str) -> None:
    assert_refused(text)


@quick
@given(st.binary(max_size=200))
def test_any_bytes_in_base64_are_402(content: bytes) -> None:
    assert_refused(base64.b64encode(content).decode())


@quick
@given(JSON)
def test_any_json_is_402(value: Any) -> None:
    assert_refused(encode_header(value))


@quick
@given(PATHS, JSON)
def test_any_json_in_any_place_is_402(path: tuple[str, ...], value: Any) -> None:
    instructions = ask(None).first("payment-required")
    assert instructions is not None
    good = GOOD.pay(instructions)
    holder = decode_header(good)
    for step in path:
        holder = holder[step]
    if value != holder:
        assert_refused(changed(good, path, value))


@quick
@given(st.binary(min_size=32, max_size=32), st.integers(1, ORDER // 2), st.sampled_from((27, 28)))
def test_any_65_bytes_are_no_signature(r: bytes, s: int, v: int) -> None:
    """In the form that a token takes: half of them are the signature of somebody."""
    instructions = ask(None).first("payment-required")
    assert instructions is not None
    signature = r + s.to_bytes(32, "big") + bytes([v])
    assert_refused(changed(GOOD.pay(instructions), ("payload", "signature"), "0x" + signature.hex()))
