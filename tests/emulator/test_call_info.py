"""What a call is about, read from requests of every kind."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.core.models import WireRequest
from faregate.emulator import TEST_KEY, Emulator, ManualClock, Wallet
from faregate.emulator.calls import CallInfo, describe_call

from .load import Seller, access_body
from .seller import ROOT

KEY = ("Authorization", f"Bearer {TEST_KEY}")
TXN = "txn_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"


def told(emulator: Emulator, request: WireRequest) -> CallInfo:
    return emulator.read_state(lambda service, _: describe_call(service, request))


def about(emulator: Emulator, method: str, path: str, body: Any = b"", *headers: tuple[str, str]) -> CallInfo:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return told(emulator, WireRequest(method, ROOT + path, (KEY, *headers), content))


def test_a_sale_is_known_from_its_first_call_to_its_last() -> None:
    clock = ManualClock()
    emulator = Emulator(clock=clock)
    seller, wallet = Seller(emulator), Wallet.test("good", clock=clock)
    body, complete = access_body(seller.revision_id), f"/transactions/{TXN}/complete"
    proof = wallet.pay(seller.instructions())
    paying, known = ("payment-signature", proof), CallInfo("access", TEST_KEY, "test", "text_summary")
    assert about(emulator, "POST", "/access", body) == known
    named = CallInfo("access", TEST_KEY, "test", "text_summary", wallet.address)
    assert about(emulator, "POST", "/access", body, paying) == named
    found = json.loads(seller.call("POST", "/access", body, proof).body)["transaction_id"]
    whole = CallInfo("access", TEST_KEY, "test", "text_summary", wallet.address, found)
    assert about(emulator, "POST", "/access", body, paying) == whole
    read = about(emulator, "GET", f"/transactions/{found}")
    assert read == CallInfo("transaction", TEST_KEY, "test", "text_summary", wallet.address, found)
    completed = about(emulator, "POST", f"/transactions/{found}/complete")
    assert completed == CallInfo("complete", TEST_KEY, "test", "text_summary", wallet.address, found)
    assert about(emulator, "POST", complete, b"", paying) == CallInfo(
        "complete", TEST_KEY, "test", None, wallet.address, TXN
    )


def test_a_free_execution_tells_its_resource() -> None:
    emulator = Emulator(expose_execution_id=True)
    seller = Seller(emulator)
    body = access_body(emulator.revision_id("free_notes"))
    found = json.loads(seller.call("POST", "/access", body).body)["resource_execution_id"]
    closing = about(emulator, "POST", f"/resource-executions/{found}/complete")
    assert closing == CallInfo("execution", TEST_KEY, "test", "free_notes")


@pytest.mark.parametrize(
    ("method", "path", "facts"),
    [
        ("GET", "/nothing", CallInfo()),
        ("PUT", "/access", CallInfo()),
        ("GET", "/payers?page=0", CallInfo("payers", TEST_KEY, "test")),
        ("POST", "/access", CallInfo("access", TEST_KEY, "test")),
    ],
)
def test_what_cannot_be_known_is_none(method: str, path: str, facts: CallInfo) -> None:
    assert about(Emulator(), method, path) == facts


def test_a_key_that_is_not_let_in_is_not_shown() -> None:
    emulator = Emulator()
    for key in ("svc_live_emulator", "svc_test_somebodys", ""):
        request = WireRequest("GET", f"{ROOT}/payers", (("Authorization", f"Bearer {key}"),))
        assert told(emulator, request) == CallInfo("payers")


EMULATOR = Emulator()
TEXT = st.text(st.characters(max_codepoint=255), max_size=40)
PATHS = st.sampled_from(("/access", "/transactions/", "/transactions", f"/transactions/{TXN}/complete"))


@given(
    method=st.sampled_from(("GET", "POST", "")),
    path=st.one_of(TEXT, st.builds("{}{}{}".format, st.just(ROOT), PATHS, TEXT)),
    headers=st.lists(
        st.tuples(st.sampled_from(("Authorization", "PAYMENT-SIGNATURE", "x")), TEXT), max_size=3
    ),
    body=st.one_of(st.none(), st.binary(max_size=40), st.just(b"[" * 5000)),
)
def test_it_never_raises(method: str, path: str, headers: list[tuple[str, str]], body: bytes | None) -> None:
    request = WireRequest(method, path, (KEY, *headers), body)
    assert isinstance(told(EMULATOR, request), CallInfo)
