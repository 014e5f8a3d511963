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

from faregate.core.instructions import are_unguessable
from faregate.emulator import Emulator, Fault, ManualClock, Revision, SettlementRule
from faregate.emulator.system import system_clock
from tests.attacks.chain import read_calldata, rebuild_proof

from .seller import Purchase, Shop, assert_error, decoded


@pytest.fixture
def clock() -> ManualClock:
    """Stands still at the real present, by which the official client signs."""
    return ManualClock(system_clock())


def bought(shop: Shop, resource: str = "text_summary") -> Purchase:
    """A transaction that the official client authorized."""
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    required = decode_payment_required_header(shop.instructions(resource))
    proof = encode_payment_signature_header(client.create_payment_payload(required))
    allowed = shop.access(resource, proof)
    assert allowed.status_code == 200, allowed.text
    return Purchase(allowed.json()["transaction_id"], proof, str(shop.access_body(resource)["revision_id"]))


def stay_open(shop: Shop, purchase: Purchase) -> None:
    """Nothing has happened yet."""


def begin_to_settle(shop: Shop, purchase: Purchase) -> None:
    shop.emulator.settle_after(purchase.id, SettlementRule(manual=True))
    assert shop.complete(purchase).status_code == 202


def reconcile(shop: Shop, purchase: Purchase) -> None:
    shop.emulator.settle_after(purchase.id, SettlementRule(manual=True, via="reconciling"))
    assert shop.complete(purchase).status_code == 202


def succeed(shop: Shop, purchase: Purchase) -> None:
    assert shop.complete(purchase).json()["status"] == "succeeded"


def fail(shop: Shop, purchase: Purchase) -> None:
    assert shop.fail(purchase).json()["status"] == "failed"


def let_expire(shop: Shop, purchase: Purchase) -> None:
    shop.clock.advance(3600)


def supersede(shop: Shop, purchase: Purchase) -> None:
    shop.emulator.publish("text_summary", Revision(amount=10_000))


State = Callable[[Shop, Purchase], None]
OPEN: dict[str, tuple[State, int]] = {
    "open": (stay_open, 200),
    "settling": (begin_to_settle, 202),
    "reconciling": (reconcile, 202),
    "superseded": (supersede, 200),
}
"""Each state of a payment that is not final, and the status that its own proof gets in it."""
FINAL: dict[str, State] = {"succeeded": succeed, "failed": fail, "expired": let_expire}


def steal(shop: Shop, purchase: Purchase) -> tuple[str, httpx.Response]:
    """The rebuilt header, and what access says to it."""
    header = rebuild_proof(read_calldata(purchase.proof), shop.instructions())
    return header, shop.access(proof=header)


def test_the_official_client_sends_what_is_rebuilt_here(shop: Shop) -> None:
    """With the same instructions the rebuilt header is the client's, byte for byte."""
    instructions = shop.instructions()
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    required = decode_payment_required_header(instructions)
    proof = encode_payment_signature_header(client.create_payment_payload(required))
    assert rebuild_proof(read_calldata(proof), instructions) == proof


@pytest.mark.parametrize("state", [*OPEN, *FINAL])
def test_a_rebuilt_header_gets_nothing(shop: Shop, state: str) -> None:
    purchase = bought(shop)
    arrange = FINAL[state] if state in FINAL else OPEN[state][0]
    arrange(shop, purchase)
    before = shop.transaction(purchase)

    header, answer = steal(shop, purchase)

    assert header != purchase.proof
    assert assert_error(answer, 402, "payment_required") == "the authorization was already used"
    assert purchase.id not in answer.text + str(answer.headers) + json.dumps(instructions_of(answer))
    assert are_unguessable(answer.headers["payment-required"], shop.instructions())
    assert shop.listed("/transactions")["count"] == 1
    assert shop.transaction(purchase) == before


@pytest.mark.parametrize("state", OPEN)
def test_the_payers_own_bytes_still_get_the_transaction_while_it_is_open(shop: Shop, state: str) -> None:
    purchase = bought(shop)
    arrange, status = OPEN[state]
    arrange(shop, purchase)
    steal(shop, purchase)

    again = shop.access(proof=purchase.proof)

    assert (again.status_code, again.json()) == (status, {"transaction_id": purchase.id})


@pytest.mark.parametrize("state", OPEN)
def test_without_the_fresh_value_the_theft_succeeds(shop: Shop, state: str) -> None:
    """With a value that is the same in every 402: the header that is rebuilt here is the right one."""
    shop.emulator.faults.add(Fault(kind="guessable-instructions", times=None))
    purchase = bought(shop)
    arrange, status = OPEN[state]
    arrange(shop, purchase)

    header, answer = steal(shop, purchase)

    assert header == purchase.proof
    assert (answer.status_code, answer.json()) == (status, {"transaction_id": purchase.id})


@pytest.mark.parametrize("state", [*OPEN, *FINAL])
def test_nobody_completes_with_a_rebuilt_header(shop: Shop, state: str) -> None:
    purchase = bought(shop)
    arrange = FINAL[state] if state in FINAL else OPEN[state][0]
    arrange(shop, purchase)
    before = shop.transaction(purchase)
    header = rebuild_proof(read_calldata(purchase.proof), shop.instructions())

    assert_error(shop.complete(purchase, proof=header), 422, "invalid_request")

    assert shop.transaction(purchase) == before


def test_a_client_that_does_not_echo_the_value_is_told(shop: Shop) -> None:
    """Its header could be rebuilt by anybody, once its payment is settled."""
    payload = decode_payment_signature_header(shop.proof())
    assert isinstance(payload, PaymentPayload)
    for extra in ({}, {"name": "USDC", "version": "2"}, {**payload.accepted.extra, "challenge": "short"}):
        accepted = payload.accepted.model_copy(update={"extra": extra})
        proof = encode_payment_signature_header(payload.model_copy(update={"accepted": accepted}))
        reason = assert_error(shop.access(proof=proof), 402, "payment_required")
        assert "accepted.extra.challenge" in reason
    assert shop.access(proof=encode_payment_signature_header(payload)).status_code == 200


def challenge(shop: Shop, resource: str = "text_summary") -> str:
    return str(decoded(shop.instructions(resource))["accepts"][0]["extra"]["challenge"])


def test_the_value_is_fresh_with_every_402(shop: Shop) -> None:
    found = {challenge(shop, resource) for resource in ("text_summary", "daily_report") for _ in range(50)}
    assert len(found) == 100
    assert {len(one) for one in found} == {64}
    ones = sum(int(one, 16).bit_count() for one in found)
    assert 0.47 < ones / (100 * 256) < 0.53


def test_two_emulators_give_other_values(shop: Shop) -> None:
    found = set[str]()
    for _ in range(2):
        shop.use(Emulator(clock=shop.clock))
        found.update(challenge(shop) for _ in range(3))
    assert len(found) == 6


def test_a_seed_repeats_the_values(shop: Shop) -> None:
    def challenges(seed: int) -> list[str]:
        shop.use(Emulator(clock=shop.clock, seed=seed))
        return [challenge(shop) for _ in range(3)]

    first = challenges(7)
    assert challenges(7) == first
    assert len({*first, *challenges(8)}) == 6


def test_instructions_and_reasons_after_a_refused_proof_are_fresh_too(shop: Shop) -> None:
    answers = [shop.access(proof="garbage") for _ in range(2)]
    assert are_unguessable(*(answer.headers["payment-required"] for answer in answers))


def instructions_of(answer: httpx.Response) -> Any:
    return decoded(answer.headers["payment-required"])
