"""Direct settlement verifies by the chain alone, and takes no payment that it could not settle."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faregate.rules.payments import PaymentRefused, PaymentsUnavailable, PaymentVerified
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.backend import DirectPayments
from faregate.service.chain.direct.gas_account import GasAccount
from faregate.service.chain.direct.signers import KeySigner
from faregate.x402.models import SignedPayment
from tests.service.chain.facilitated import sign_payment
from tests.service.chain.gas_books import PRICE, TERMS, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcFault, RpcProxy, fail_with

TRANSFER = "0xe3ee160e"
"""What a call of transferWithAuthorization begins with."""
Verify = Callable[..., PaymentVerified | PaymentRefused]


@pytest.fixture
def payment(payer: ChainPayer) -> SignedPayment:
    return sign_payment(payer, TERMS)


@pytest.fixture
def verify(worker: Worker, payment: SignedPayment) -> Verify:
    def run(committed: int = 0, later: int = 0) -> PaymentVerified | PaymentRefused:
        now = datetime.now(UTC) + timedelta(seconds=later)
        return worker.payments.verify(payment, TERMS, now=now, committed=committed)

    return run


def test_a_good_payment_is_verified(chain: LocalChain, payer: ChainPayer, verify: Verify) -> None:
    funds = chain.get_balance(USDC, payer.address)
    assert verify() == PaymentVerified(payer.address, chain.head, funds)
    assert chain.get_balance(USDC, TERMS.pay_to) == 0


def test_what_open_transactions_reserve_is_not_there(
    chain: LocalChain, payer: ChainPayer, verify: Verify
) -> None:
    balance = chain.get_balance(USDC, payer.address)
    assert isinstance(verify(committed=balance - PRICE), PaymentVerified)
    assert verify(committed=balance - PRICE + 1) == PaymentRefused("the payer has not enough USDC")


def test_a_used_authorization_is_refused(chain: LocalChain, payment: SignedPayment, verify: Verify) -> None:
    chain.settle(USDC, payment)
    assert verify() == PaymentRefused(
        "the token would refuse the transfer: FiatTokenV2: authorization is used or canceled"
    )


def test_a_cancelled_authorization_is_refused(
    chain: LocalChain, payer: ChainPayer, payment: SignedPayment, verify: Verify
) -> None:
    payer.cancel(chain, USDC, payment.nonce)
    assert isinstance(verify(), PaymentRefused)


def test_a_foreign_signature_is_refused_before_the_chain_is_asked(
    payer: ChainPayer, payment: SignedPayment, worker: Worker
) -> None:
    foreign = replace(payment, signature=sign_payment(payer, TERMS).signature)
    assert worker.payments.verify(foreign, TERMS, now=datetime.now(UTC), committed=0) == PaymentRefused(
        "the signature is not the payer's for this authorization"
    )


def test_a_gas_account_that_cannot_pay_takes_no_payments(
    chain: LocalChain, gas: ChainPayer, verify: Verify
) -> None:
    """The seller's work would be done, and nothing could be settled."""
    chain.fund(gas.address, 0)
    with pytest.raises(PaymentsUnavailable, match="send it some"):
        verify()
    chain.fund(gas.address)
    assert isinstance(verify(), PaymentVerified)


def test_that_the_gas_account_can_pay_is_asked_now_and_then(
    chain: LocalChain, gas: ChainPayer, verify: Verify
) -> None:
    verify()
    chain.fund(gas.address, 0)
    assert isinstance(verify(later=5), PaymentVerified)
    with pytest.raises(PaymentsUnavailable):
        verify(later=11)


@pytest.fixture
def distant(proxy: RpcProxy, gas: ChainPayer) -> DirectPayments:
    """Payments over a node that a test can break."""
    reader = ChainReader(USDC.chain, [proxy.url], clock=lambda: datetime.now(UTC))
    return DirectPayments(GasAccount(reader, KeySigner(gas.private_key), lambda: datetime.now(UTC)), reader)


def change_simulation(proxy: RpcProxy, fault: RpcFault) -> None:
    """Let the node answer with this error whenever the transfer is simulated."""

    def change(params: list[Any], result: Any) -> Any:
        if str(params[0]["data"]).startswith(TRANSFER):
            raise fault
        return result

    proxy.change["eth_call"] = change


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("simulation", RpcFault(-32005, "rate limit exceeded")),
        ("simulation", RpcFault(-32603, "internal error")),
        ("eth_call", RpcFault(-32005, "rate limit exceeded")),
        ("eth_getBlockByNumber", RpcFault(-32000, "busy")),
        ("eth_maxPriorityFeePerGas", RpcFault(-32601, "no such method")),
    ],
    ids=str,
)
def test_a_node_that_cannot_tell_decides_nothing(
    proxy: RpcProxy, distant: DirectPayments, payment: SignedPayment, method: str, fault: RpcFault
) -> None:
    if method == "simulation":
        change_simulation(proxy, fault)
    else:
        proxy.change[method] = fail_with(fault.code, str(fault))
    with pytest.raises(PaymentsUnavailable):
        distant.verify(payment, TERMS, now=datetime.now(UTC), committed=0)


@pytest.mark.parametrize("fault", [RpcFault(3, "no"), RpcFault(-32000, "VM Exception: Reverted")], ids=str)
def test_a_refusal_without_a_reason_is_one(
    proxy: RpcProxy, distant: DirectPayments, payment: SignedPayment, fault: RpcFault
) -> None:
    change_simulation(proxy, fault)
    refused = distant.verify(payment, TERMS, now=datetime.now(UTC), committed=0)
    assert refused == PaymentRefused("the token would refuse the transfer: it gives no reason")


def test_a_reason_of_the_token_shows_no_signature(
    proxy: RpcProxy, distant: DirectPayments, payment: SignedPayment
) -> None:
    """A node may repeat what it was asked."""
    change_simulation(proxy, RpcFault(3, f"execution reverted: no <b>{payment.signature}</b>"))
    refused = distant.verify(payment, TERMS, now=datetime.now(UTC), committed=0)
    assert isinstance(refused, PaymentRefused)
    assert payment.signature[2:40] not in refused.reason
    assert "<" not in refused.reason
