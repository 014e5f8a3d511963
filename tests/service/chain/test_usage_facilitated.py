"""Payments of the scheme `upto` through facilitators: both official ones, and one that is faulty."""

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess

from faregate.core.models import Response
from faregate.rules.payments import (
    UNKNOWN_AMOUNT,
    Attempt,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    PaymentsUnavailable,
    PaymentVerified,
    Reservation,
)
from faregate.service.chain.facilitator import FacilitatorUnavailable
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from faregate.x402.eip712 import derive_address
from faregate.x402.models import SignedPayment, Terms
from tests.service.chain.books import SUBMITTED, TO
from tests.service.chain.facilitated import make_client, read_chain
from tests.service.chain.usage_books import MAXIMUM, USED, UsageBooks
from tests.support import faulty_facilitator as faults
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.faulty_facilitator import Call, Fault, FaultyFacilitator
from tests.support.raw_server import Connection
from tests.support.replies import json_reply
from tests.support.usage_payments import pay_usage
from tests.support.waiting import eventually

ACCOUNT = derive_address(bytes.fromhex(GAS_KEYS[0][2:])).lower()


@pytest.fixture
def usage(chain: LocalChain, payer: ChainPayer) -> UsageBooks:
    return UsageBooks(chain, payer)


def now() -> datetime:
    return datetime.now(UTC)


def offer(payments: FacilitatorPayments) -> Terms:
    """Make the terms that a payer is asked."""
    return Terms(USDC, MAXIMUM, TO, 60, payments.list_facilitators(USDC, now()))


def attempt(number: int = 1, amount: int = USED, *hashes: str) -> Attempt:
    return Attempt(SUBMITTED, number, 1, hashes, sent_before=number > 1, amount=amount)


def verify(payments: FacilitatorPayments, payment: SignedPayment, terms: Terms, **given: Any) -> Any:
    return payments.verify(payment, terms, now=now(), committed=given.pop("committed", 0), **given)


@contextmanager
def serving(*urls: str) -> Generator[tuple[FacilitatorPayments, list[FaultyFacilitator]]]:
    """Give payments on no chain through proxies of these facilitators."""
    with ExitStack() as stack:
        proxies = [FaultyFacilitator(url) for url in urls]
        served = [stack.enter_context(proxy.serving()) for proxy in proxies]
        reader: Any = read_chain(LocalChain("http://127.0.0.1:9"))
        yield FacilitatorPayments([make_client(url, 2.0) for url in served], reader), proxies


def test_the_official_facilitators_settle_what_was_used(
    usage: UsageBooks, any_facilitator: FacilitatorProcess
) -> None:
    payments = FacilitatorPayments([make_client(any_facilitator.url)], read_chain(usage.chain))
    terms = offer(payments)
    assert (terms.scheme, terms.facilitators) == ("upto", (ACCOUNT,))
    payment = pay_usage(usage.payer.private_key, terms)
    verified = verify(payments, payment, terms)
    assert isinstance(verified, PaymentVerified), verified
    sent = payments.send(payment, terms, attempt())
    assert sent.note.endswith("HTTP 200 success"), sent
    assert payments.look(payment, terms, attempt()) == PaymentSettled(sent.transaction_hash or "", USED)
    assert usage.chain.get_balance(USDC, TO) == USED
    again = payments.send(payment, terms, attempt(2))
    assert "success" not in again.note
    assert usage.chain.get_balance(USDC, TO) == USED


def test_an_amount_above_the_maximum_is_refused_by_the_official_facilitators(
    usage: UsageBooks, any_facilitator: FacilitatorProcess
) -> None:
    payments = FacilitatorPayments([make_client(any_facilitator.url)], read_chain(usage.chain))
    terms = offer(payments)
    sent = payments.send(pay_usage(usage.payer.private_key, terms), terms, attempt(1, MAXIMUM + 1))
    assert (sent.transaction_hash, usage.chain.get_balance(USDC, TO)) == (None, 0)


# Verification


def test_who_has_not_approved_permit2_is_told_so(
    chain: LocalChain, payer: ChainPayer, facilitator: FacilitatorProcess
) -> None:
    usage = UsageBooks(chain, payer)
    chain.approve_permit2(USDC, payer.address, MAXIMUM - 1)
    payments = FacilitatorPayments([make_client(facilitator.url)], read_chain(usage.chain))
    terms = offer(payments)
    payment = pay_usage(payer.private_key, terms)
    refused = verify(payments, payment, terms)
    assert refused == PaymentRefused(
        "permit2_allowance_required: approve 0x000000000022D473030F116dDEE9F6B43aC78BA3 for 500000 atomic "
        "units of USDC"
    )
    chain.approve_permit2(USDC, payer.address, MAXIMUM)
    assert isinstance(verify(payments, payment, terms), PaymentVerified)


def test_an_approval_is_shared_by_open_payments(usage: UsageBooks) -> None:
    chain, payer = usage.chain, usage.payer
    usage.chain.approve_permit2(USDC, payer.address, 2 * MAXIMUM)
    first, second = usage.pay(), usage.pay()
    reader, terms = read_chain(chain), usage.terms
    open_one = Reservation(first.nonce, MAXIMUM)
    fixed = Reservation("0x" + "11" * 32, MAXIMUM)  # takes nothing of the approval
    assert reader.find_missing_approval(second, terms, (open_one, fixed), chain.head) is None
    both = (open_one, Reservation(usage.pay().nonce, MAXIMUM))
    assert reader.find_missing_approval(second, terms, both, chain.head) is not None
    # The chain has taken one, of which the books do not know yet: what is left covers the others.
    usage.settle(first)
    assert usage.read_allowance() == 2 * MAXIMUM - USED
    assert reader.find_missing_approval(second, terms, (open_one,), chain.head) is None
    usage.settle(second, MAXIMUM)
    third = usage.pay()
    assert reader.find_missing_approval(third, terms, (), chain.head) is not None
    reader.close()


def test_open_payments_of_both_schemes_share_the_balance(chain: LocalChain) -> None:
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 2 * MAXIMUM)
    usage = UsageBooks(chain, payer)
    reader, terms = read_chain(chain), usage.terms
    first, second = usage.pay(), usage.pay()
    reserved = (Reservation(first.nonce, MAXIMUM), Reservation("0x" + "11" * 32, 10))
    committed = MAXIMUM + 10
    assert reader.read_funds(second, terms, committed, reserved) - committed < MAXIMUM
    usage.settle(first, USED)
    funds = reader.read_funds(second, terms, committed, reserved)
    assert funds - committed == 2 * MAXIMUM - USED - 10, "of the first, only what it used is gone"
    reader.close()


def test_a_nonce_that_permit2_took_is_refused(usage: UsageBooks, facilitator: FacilitatorProcess) -> None:
    payments = FacilitatorPayments([make_client(facilitator.url)], read_chain(usage.chain))
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    usage.invalidate(payment.nonce)
    assert verify(payments, payment, terms) == PaymentRefused("the authorization was already used")


# From where a facilitator settles


async def _supports_nothing(connection: Connection, _call: Call) -> None:
    await connection.answer(json_reply(200, {"kinds": []}))


def _supports(*addresses: object, network: str = USDC.network, **more: object) -> Fault:
    async def supports(connection: Connection, _call: Call) -> None:
        kinds = [
            {"x402Version": 2, "scheme": "upto", "network": network, "extra": {"facilitatorAddress": one}}
            for one in addresses
        ]
        await connection.answer(json_reply(200, {"kinds": kinds, **more}))

    return supports


def _list(fault: Fault) -> tuple[str, ...]:
    with serving("http://127.0.0.1:9") as (_, [proxy]):
        proxy.fail_always("supported", fault)
        with proxy.serving() as url:
            return make_client(url, 2.0).list_addresses(USDC.network)


A, B = "0x" + "aA" * 20, "0x" + "bB" * 20


@pytest.mark.parametrize(
    ("fault", "listed"),
    [
        (_supports(A), (A.lower(),)),
        (_supports(A, signers={"eip155:*": [B, A]}), (A.lower(), B.lower())),
        (_supports(A, signers={USDC.network: [B], "solana:*": ["xyz"]}), (A.lower(), B.lower())),
        (_supports(A, network="eip155:1"), ()),
        (_supports(None), ()),
        (_supports("0xaa"), ()),
        (_supports(A, signers=[B]), (A.lower(),)),
        (_supports_nothing, ()),
    ],
)
def test_the_addresses_that_a_facilitator_names(fault: Fault, listed: tuple[str, ...]) -> None:
    assert _list(fault) == listed


def test_a_facilitator_that_does_not_answer_names_none() -> None:
    with pytest.raises(FacilitatorUnavailable):
        _list(faults.is_down)


@contextmanager
def naming(usage: UsageBooks, *operations: Fault) -> Generator[tuple[Any, list[FaultyFacilitator]]]:
    """Give payments through facilitators of which each names its addresses so; the settle of each fails."""
    with ExitStack() as stack:
        proxies = [FaultyFacilitator("http://127.0.0.1:9") for _ in operations]
        for proxy, supported in zip(proxies, operations, strict=True):
            proxy.fail_always("supported", supported)
            proxy.fail_always("settle", faults.says_failed_before)
            proxy.fail_always("verify", faults.says_valid)
        urls = [stack.enter_context(proxy.serving()) for proxy in proxies]
        yield FacilitatorPayments([make_client(url, 2.0) for url in urls], read_chain(usage.chain)), proxies


def test_the_facilitator_that_the_payer_named_is_asked(usage: UsageBooks) -> None:
    with naming(usage, _supports(A), _supports(B)) as (payments, [first, second]):
        terms = offer(payments)
        assert terms.facilitators == (A.lower(), B.lower())
        for_second = replace(terms, facilitators=(B,))
        payment = pay_usage(usage.payer.private_key, for_second)
        assert isinstance(verify(payments, payment, terms), PaymentVerified)
        for number in (1, 2, 3):
            payments.send(payment, terms, attempt(number))
        assert (first.asked, second.asked.count("settle")) == (["supported"], 3)
        assert second.asked.count("verify") == 1
    # After a restart, too.
    with naming(usage, _supports(A), _supports(B)) as (payments, [first, second]):
        payments.send(payment, terms, attempt(1))
        assert (first.asked, second.asked) == (["supported"], ["supported", "settle"])


def test_an_address_that_was_offered_stays_known(usage: UsageBooks) -> None:
    """One with several addresses offers them by turns."""
    with naming(usage, _supports(A)) as (payments, [proxy]):
        assert payments.list_facilitators(USDC, now()) == (A.lower(),)
        proxy.fail_always("supported", _supports(B))
        assert payments.list_facilitators(USDC, now()) == (A.lower(),)
        later = now() + timedelta(minutes=11)
        assert payments.list_facilitators(USDC, later) == (B.lower(), A.lower())
        proxy.fail_always("supported", faults.is_down)
        later += timedelta(minutes=11)
        assert payments.list_facilitators(USDC, later) == (B.lower(), A.lower())


def test_who_settles_by_a_contract_is_not_offered(
    usage: UsageBooks, caplog: pytest.LogCaptureFixture
) -> None:
    with naming(usage, _supports(USDC.address, B)) as (payments, _):
        assert payments.list_facilitators(USDC, now()) == (B.lower(),)
    assert "settles by a contract: it is not used so" in caplog.text


def test_without_an_answer_nothing_is_offered(usage: UsageBooks) -> None:
    with naming(usage, faults.is_down) as (payments, [proxy]):
        for _ in range(3):
            with pytest.raises(PaymentsUnavailable):
                offer(payments)
        assert proxy.asked == ["supported"], "not by each request"
        proxy.fail_always("supported", _supports(A))
        assert payments.list_facilitators(USDC, now() + timedelta(seconds=6)) == (A.lower(),)
    with naming(usage, _supports_nothing) as (payments, _):
        assert offer(payments).scheme == "exact"


# Faults


def settles_another_amount(amount: int) -> Fault:
    async def settles_another_amount(connection: Connection, call: Call) -> None:
        """It settles another amount than it was asked to, and says that it did as it was asked."""
        body = json.loads(call.request.body or b"{}")
        asked = body["paymentRequirements"]["amount"]
        body["paymentRequirements"]["amount"] = str(amount)
        changed = replace(call, request=replace(call.request, body=json.dumps(body).encode()))
        answer = json.loads((await changed.act()).body)
        await connection.answer(json_reply(200, {**answer, "amount": asked}))

    return settles_another_amount


USAGE_FAULTS = {
    "another amount": (settles_another_amount(1), 1),
    "the maximum": (settles_another_amount(MAXIMUM), MAXIMUM),
    "twice": (faults.sends_twice, USED),
    "none, says settled": (faults.says_settled, None),
    "none, no hash": (faults.says_settled_without_hash, None),
    "settles, says failed": (faults.says_failed_after, USED),
    "names another": (faults.names_another_after, USED),
    "hangs up": (faults.hangs_up_after, USED),
}


@pytest.mark.parametrize("name", USAGE_FAULTS)
def test_the_chain_says_what_a_facilitator_did(
    usage: UsageBooks, facilitator: FacilitatorProcess, name: str
) -> None:
    fault, settled = USAGE_FAULTS[name]
    proxy = FaultyFacilitator(facilitator.url)
    proxy.fail("settle", fault)
    with proxy.serving() as url:
        payments = FacilitatorPayments([make_client(url)], read_chain(usage.chain))
        terms = offer(payments)
        payment = pay_usage(usage.payer.private_key, terms)
        sent = payments.send(payment, terms, attempt())
        known = () if sent.transaction_hash is None else (sent.transaction_hash,)
        if settled is None:
            assert not isinstance(payments.look(payment, terms, attempt(1, USED, *known)), PaymentSettled)
            settled, sent = USED, payments.send(payment, terms, attempt(2))

        def look() -> object:
            return payments.look(payment, terms, attempt(2, USED, *known))

        assert eventually(lambda: isinstance(look(), PaymentSettled))
        found = look()
    assert isinstance(found, PaymentSettled)
    assert found.amount == settled == usage.chain.get_balance(USDC, TO)
    receipt = usage.chain.get_receipt(found.transaction_hash)
    assert receipt is not None
    assert receipt["status"] == "0x1"


def test_the_body_of_a_settlement_says_what_was_used(usage: UsageBooks) -> None:
    bodies = list[Any]()

    async def keep(connection: Connection, call: Call) -> None:
        bodies.append(json.loads(call.request.body or b"{}"))
        await connection.answer(Response(200, (), b"{}"))

    with naming(usage, _supports(A)) as (payments, [proxy]):
        terms = offer(payments)
        payment = pay_usage(usage.payer.private_key, terms)
        proxy.fail_always("settle", keep)
        payments.send(payment, terms, attempt())
    [body] = bodies
    assert body["paymentRequirements"]["amount"] == str(USED)
    assert body["paymentPayload"]["accepted"] == {**body["paymentRequirements"], "amount": str(MAXIMUM)}
    permit = body["paymentPayload"]["payload"]["permit2Authorization"]
    assert (permit["permitted"]["amount"], permit["nonce"]) == (str(MAXIMUM), payment.nonce)
    assert body["paymentPayload"]["accepted"]["extra"]["assetTransferMethod"] == "permit2"
    assert "challenge" not in body["paymentPayload"]["accepted"]["extra"]


def test_without_a_known_use_nobody_is_asked_to_settle(usage: UsageBooks) -> None:
    with naming(usage, _supports(A)) as (payments, [proxy]):
        terms = offer(payments)
        payment = pay_usage(usage.payer.private_key, terms)
        sent = payments.send(payment, terms, Attempt(SUBMITTED, 1, 1))
        assert sent == PaymentSent(None, UNKNOWN_AMOUNT)
        assert "settle" not in proxy.asked
