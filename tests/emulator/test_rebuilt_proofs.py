"""A settled authorization is public. Who rebuilds the payer's header from it must get nothing, in any state.

The thief knows what a chain shows, the calldata of `transferWithAuthorization`, and asks the service for
instructions of its own. The rest is the serialization of the official client.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from eth_account import Account
from x402 import x402ClientSync
from x402.http.utils import (
    decode_payment_required_header,
    decode_payment_signature_header,
    encode_payment_signature_header,
)
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.schemas import PaymentPayload

from faregate.emulator import Emulator, Fault, ManualClock, Revision, SettlementRule
from faregate.system import system_clock
from faregate.x402.instructions import are_unpredictable
from tests.attacks.chain import read_calldata, rebuild_proof
from tests.support.headers import decode_header

from .seller import ApiClient, Purchase, assert_error


@pytest.fixture
def clock() -> ManualClock:
    """Stands still at the real present, by which the official client signs."""
    return ManualClock(system_clock())


def bought(api: ApiClient, resource: str = "text_summary") -> Purchase:
    """A transaction that the official client authorized."""
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    required = decode_payment_required_header(api.instructions(resource))
    proof = encode_payment_signature_header(client.create_payment_payload(required))
    allowed = api.access(resource, proof)
    assert allowed.status_code == 200, allowed.text
    return Purchase(allowed.json()["transaction_id"], proof, str(api.access_body(resource)["revision_id"]))


def stay_open(api: ApiClient, purchase: Purchase) -> None:
    """Nothing has happened yet."""


def begin_to_settle(api: ApiClient, purchase: Purchase) -> None:
    api.service.settle_after(purchase.id, SettlementRule(manual=True))
    assert api.complete(purchase).status_code == 202


def reconcile(api: ApiClient, purchase: Purchase) -> None:
    api.service.settle_after(purchase.id, SettlementRule(manual=True, via="reconciling"))
    assert api.complete(purchase).status_code == 202


def succeed(api: ApiClient, purchase: Purchase) -> None:
    assert api.complete(purchase).json()["status"] == "succeeded"


def fail(api: ApiClient, purchase: Purchase) -> None:
    assert api.fail(purchase).json()["status"] == "failed"


def let_expire(api: ApiClient, purchase: Purchase) -> None:
    api.clock.advance(3600)


def supersede(api: ApiClient, purchase: Purchase) -> None:
    api.service.publish("text_summary", Revision(amount=10_000))


State = Callable[[ApiClient, Purchase], None]
OPEN: dict[str, tuple[State, int]] = {
    "open": (stay_open, 200),
    "settling": (begin_to_settle, 202),
    "reconciling": (reconcile, 202),
    "superseded": (supersede, 200),
}
"""Each state of a payment that is not final, and the status that its own proof gets in it."""
FINAL: dict[str, State] = {"succeeded": succeed, "failed": fail, "expired": let_expire}


def steal(api: ApiClient, purchase: Purchase) -> tuple[str, httpx.Response]:
    """The rebuilt header, and what access says to it."""
    header = rebuild_proof(read_calldata(purchase.proof), api.instructions())
    return header, api.access(proof=header)


def test_the_official_client_sends_what_is_rebuilt_here(api: ApiClient) -> None:
    """With the same instructions the rebuilt header is the client's, byte for byte."""
    instructions = api.instructions()
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    required = decode_payment_required_header(instructions)
    proof = encode_payment_signature_header(client.create_payment_payload(required))
    assert rebuild_proof(read_calldata(proof), instructions) == proof


@pytest.mark.parametrize("state", [*OPEN, *FINAL])
def test_a_rebuilt_header_gets_nothing(api: ApiClient, state: str) -> None:
    purchase = bought(api)
    arrange = FINAL[state] if state in FINAL else OPEN[state][0]
    arrange(api, purchase)
    before = api.transaction(purchase)

    header, answer = steal(api, purchase)

    assert header != purchase.proof
    assert assert_error(answer, 402, "payment_required") == "the authorization was already used"
    assert purchase.id not in answer.text + str(answer.headers) + json.dumps(instructions_of(answer))
    assert are_unpredictable(answer.headers["payment-required"], api.instructions())
    assert api.listed("/transactions")["count"] == 1
    assert api.transaction(purchase) == before


@pytest.mark.parametrize("state", OPEN)
def test_the_payers_own_bytes_still_get_the_transaction_while_it_is_open(api: ApiClient, state: str) -> None:
    purchase = bought(api)
    arrange, status = OPEN[state]
    arrange(api, purchase)
    steal(api, purchase)

    again = api.access(proof=purchase.proof)

    assert (again.status_code, again.json()) == (status, {"transaction_id": purchase.id})


@pytest.mark.parametrize("state", OPEN)
def test_without_the_fresh_value_the_theft_succeeds(api: ApiClient, state: str) -> None:
    """With a value that is the same in every 402: the header that is rebuilt here is the right one."""
    api.emulator.faults.add(Fault(kind="predictable-instructions", times=None))
    purchase = bought(api)
    arrange, status = OPEN[state]
    arrange(api, purchase)

    header, answer = steal(api, purchase)

    assert header == purchase.proof
    assert (answer.status_code, answer.json()) == (status, {"transaction_id": purchase.id})


@pytest.mark.parametrize("state", [*OPEN, *FINAL])
def test_nobody_completes_with_a_rebuilt_header(api: ApiClient, state: str) -> None:
    purchase = bought(api)
    arrange = FINAL[state] if state in FINAL else OPEN[state][0]
    arrange(api, purchase)
    before = api.transaction(purchase)
    header = rebuild_proof(read_calldata(purchase.proof), api.instructions())

    assert_error(api.complete(purchase, proof=header), 422, "invalid_request")

    assert api.transaction(purchase) == before


def test_a_client_that_does_not_echo_the_value_gets_an_error(api: ApiClient) -> None:
    """Its header could be rebuilt by anybody, once its payment is settled."""
    payload = decode_payment_signature_header(api.proof())
    assert isinstance(payload, PaymentPayload)
    for extra in ({}, {"name": "USDC", "version": "2"}, {**payload.accepted.extra, "challenge": "short"}):
        accepted = payload.accepted.model_copy(update={"extra": extra})
        proof = encode_payment_signature_header(payload.model_copy(update={"accepted": accepted}))
        reason = assert_error(api.access(proof=proof), 402, "payment_required")
        assert "accepted.extra.challenge" in reason
    assert api.access(proof=encode_payment_signature_header(payload)).status_code == 200


def challenge(api: ApiClient, resource: str = "text_summary") -> str:
    return str(decode_header(api.instructions(resource))["accepts"][0]["extra"]["challenge"])


def test_the_value_is_fresh_with_every_402(api: ApiClient) -> None:
    found = {challenge(api, resource) for resource in ("text_summary", "daily_report") for _ in range(50)}
    assert len(found) == 100
    assert {len(one) for one in found} == {64}
    ones = sum(int(one, 16).bit_count() for one in found)
    assert 0.47 < ones / (100 * 256) < 0.53


def test_two_services_give_other_values(api: ApiClient) -> None:
    found = set[str]()
    for _ in range(2):
        api.use_account()
        found.update(challenge(api) for _ in range(3))
    assert len(found) == 6


def test_a_seed_repeats_the_values(api: ApiClient) -> None:
    def challenges(seed: int) -> list[str]:
        api.use(Emulator(clock=api.clock, seed=seed))
        return [challenge(api) for _ in range(3)]

    first = challenges(7)
    assert challenges(7) == first
    assert len({*first, *challenges(8)}) == 6


def test_instructions_and_reasons_after_a_refused_proof_are_fresh_too(api: ApiClient) -> None:
    answers = [api.access(proof="garbage") for _ in range(2)]
    assert are_unpredictable(*(answer.headers["payment-required"] for answer in answers))


def instructions_of(answer: httpx.Response) -> Any:
    return decode_header(answer.headers["payment-required"])
