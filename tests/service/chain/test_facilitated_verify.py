"""Verify through facilitators: whom it asks, in which order, and what decides."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from examples.chain.facilitator import FacilitatorProcess

from faregate.errors import ConfigurationError
from faregate.rules.payments import Attempt, PaymentRefused, PaymentsUnavailable, PaymentVerified
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from faregate.service.chain.node_order import FIRST_REST
from faregate.system import system_clock
from tests.service.chain.facilitated import PRICE, make_client, make_terms, read_chain, sign_payment
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.faulty_facilitator import (
    Fault,
    FaultyFacilitator,
    hangs_before,
    hangs_up_before,
    is_down,
    says_failed_before,
    says_invalid,
    says_valid,
)

TERMS = make_terms()
NO_CHAIN = ChainReader(USDC.chain, ["http://127.0.0.1:9"], clock=system_clock)


@contextmanager
def verifying(
    reader: ChainReader, *operations: tuple[Fault, ...]
) -> Generator[tuple[FacilitatorPayments, list[FaultyFacilitator]]]:
    """Give payments through as many facilitators, each of which answers verify by turns in these ways."""
    with ExitStack() as stack:
        proxies = [FaultyFacilitator("http://127.0.0.1:9") for _ in operations]
        for proxy, answers in zip(proxies, operations, strict=True):
            proxy.fail_always("verify", *answers)
            proxy.fail_always("settle", says_failed_before)
        urls = [stack.enter_context(proxy.serving()) for proxy in proxies]
        yield FacilitatorPayments([make_client(url, 0.5) for url in urls], reader), proxies


def now() -> datetime:
    return datetime.now(UTC)


def test_a_good_payment(chain: LocalChain, payer: ChainPayer, facilitator: FacilitatorProcess) -> None:
    payments = FacilitatorPayments([make_client(facilitator.url)], read_chain(chain))
    head = chain.head
    verified = payments.verify(sign_payment(payer, TERMS), TERMS, now=now(), committed=0)
    assert verified == PaymentVerified(payer.address, head, chain.get_balance(USDC, payer.address))


def test_what_is_reserved_is_not_there(chain: LocalChain) -> None:
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 3 * PRICE)
    with verifying(read_chain(chain), (says_valid,)) as (payments, _):
        payment = sign_payment(payer, TERMS)
        enough = payments.verify(payment, TERMS, now=now(), committed=2 * PRICE)
        short = payments.verify(payment, TERMS, now=now(), committed=2 * PRICE + 1)
    assert isinstance(enough, PaymentVerified)
    assert short == PaymentRefused("the payer has not enough USDC")


def test_a_used_authorization_is_refused_whatever_a_facilitator_says(
    chain: LocalChain, payer: ChainPayer
) -> None:
    payment = sign_payment(payer, TERMS)
    chain.settle(USDC, payment)
    with verifying(read_chain(chain), (says_valid,)) as (payments, _):
        refused = payments.verify(payment, TERMS, now=now(), committed=0)
    assert refused == PaymentRefused("the authorization was already used")


def test_nobody_is_asked_about_a_payment_that_is_bad_in_itself() -> None:
    payment = sign_payment(ChainPayer(), TERMS)
    forged = replace(payment, signature=sign_payment(ChainPayer(), TERMS).signature)
    with verifying(NO_CHAIN, (says_valid,)) as (payments, [proxy]):
        results = [
            payments.verify(forged, TERMS, now=now(), committed=0),
            payments.verify(payment, replace(TERMS, amount=PRICE + 1), now=now(), committed=0),
            payments.verify(payment, TERMS, now=now() + timedelta(seconds=300), committed=0),
        ]
    assert all(isinstance(result, PaymentRefused) for result in results)
    assert proxy.asked == []


@pytest.mark.parametrize("fault", [is_down, hangs_before, hangs_up_before, says_failed_before])
def test_the_next_facilitator_is_asked_where_one_gives_no_verdict(
    chain: LocalChain, payer: ChainPayer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    payment = sign_payment(payer, TERMS)
    with verifying(read_chain(chain), (fault,), (says_valid,)) as (payments, [first, second]):
        assert isinstance(payments.verify(payment, TERMS, now=now(), committed=0), PaymentVerified)
        assert (first.asked, second.asked) == (["verify"], ["verify"])
        payments.verify(payment, TERMS, now=now(), committed=0)
        assert (len(first.asked), len(second.asked)) == (1, 2), "the first rests"
        payments.verify(payment, TERMS, now=now() + timedelta(seconds=FIRST_REST + 1), committed=0)
        assert (len(first.asked), len(second.asked)) == (2, 3), "the first is tried again"
    assert "A facilitator gave no verdict: 127.0.0.1:" in caplog.text
    assert payment.signature[2:] not in caplog.text


def test_a_refusal_is_an_answer(chain: LocalChain, payer: ChainPayer) -> None:
    with verifying(read_chain(chain), (says_invalid,), (says_valid,)) as (payments, [_, second]):
        refused = payments.verify(sign_payment(payer, TERMS), TERMS, now=now(), committed=0)
    assert refused == PaymentRefused("insufficient_funds")
    assert second.asked == []


def test_nothing_is_decided_while_nobody_can_be_asked(chain: LocalChain, payer: ChainPayer) -> None:
    payment = sign_payment(payer, TERMS)
    with (
        verifying(read_chain(chain), (is_down,), (hangs_up_before,)) as (payments, _),
        pytest.raises(PaymentsUnavailable, match="no facilitator could verify the payment: 127"),
    ):
        payments.verify(payment, TERMS, now=now(), committed=0)
    with verifying(NO_CHAIN, (says_valid,)) as (payments, [proxy]):
        with pytest.raises(PaymentsUnavailable):
            payments.verify(payment, TERMS, now=now(), committed=0)
        assert proxy.asked == []


def test_each_attempt_asks_exactly_one_facilitator_to_settle() -> None:
    payment = sign_payment(ChainPayer(), TERMS)
    with verifying(NO_CHAIN, (says_valid,), (says_valid,)) as (payments, proxies):
        asked: list[list[int]] = []
        for number in (1, 2, 3):
            payments.send(payment, TERMS, Attempt(now(), number))
            asked.append([proxy.asked.count("settle") for proxy in proxies])
    assert asked == [[1, 0], [1, 1], [2, 1]]


def test_a_settlement_is_asked_for_once_even_if_nobody_answers() -> None:
    payment = sign_payment(ChainPayer(), TERMS)
    with verifying(NO_CHAIN, (says_valid,), (says_valid,)) as (payments, [first, second]):
        first.fail_always("settle", hangs_before)
        sent = payments.send(payment, TERMS, Attempt(now()))
    assert sent.transaction_hash is None
    assert "no answer" in sent.note
    assert (first.asked, second.asked) == (["settle"], [])


def test_without_facilitators_nothing_works() -> None:
    with pytest.raises(ConfigurationError, match="at least one facilitator"):
        FacilitatorPayments([], NO_CHAIN)
