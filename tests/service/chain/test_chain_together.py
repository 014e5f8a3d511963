"""Several payments in one transaction: each counts by its own transfer, and no other pays for it."""

from datetime import UTC, datetime

from examples.chain.token import encode_call, encode_transfer

from faregate.rules.payments import Attempt, PaymentRefused, PaymentSettled, SettlementPending
from faregate.service.chain.abi import encode_topic
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.evidence import USED
from faregate.x402.models import SignedPayment
from tests.service.chain.books import PRICE, SUBMITTED, TERMS, TO
from tests.support.chain import USDC, ChainPayer, LocalChain

BATCH = "0x" + "ba" * 20
CALL_BYTES = 4 + 9 * 32
"""The length of a call of transferWithAuthorization."""


def test_two_payments_in_one_transaction_both_count(chain: LocalChain, payer: ChainPayer) -> None:
    first, second = (payer.authorize(USDC, TO, PRICE) for _ in range(2))
    sent = settle_together(chain, first, second)
    assert [look(chain, payment, sent) for payment in (first, second)] == [PaymentSettled(sent)] * 2


def test_the_transfer_of_another_payment_does_not_count(chain: LocalChain, payer: ChainPayer) -> None:
    """One transfer to the seller, and two nonces of other payments of its payer used around it."""
    paid, before, after = (payer.authorize(USDC, TO, PRICE) for _ in range(3))
    to_oneself = [
        payer.authorize(USDC, payer.address, PRICE, nonce=payment.nonce) for payment in (before, after)
    ]
    sent = settle_together(chain, to_oneself[0], paid, to_oneself[1])
    chain.mine()
    assert chain.get_balance(USDC, TO) == PRICE
    assert look(chain, paid, sent) == PaymentSettled(sent)
    for unpaid in (before, after):
        assert isinstance(look(chain, unpaid, sent), PaymentRefused)


def test_a_transaction_that_goes_on_after_a_failed_payment(chain: LocalChain, payer: ChainPayer) -> None:
    poor = ChainPayer()
    paid, unpaid = payer.authorize(USDC, TO, PRICE), poor.authorize(USDC, TO, PRICE)
    sent = settle_together(chain, unpaid, paid)
    assert look(chain, paid, sent) == PaymentSettled(sent)
    assert not isinstance(look(chain, unpaid, sent), PaymentSettled)


def test_a_contract_that_logs_as_the_token_does(chain: LocalChain, payer: ChainPayer) -> None:
    """A payer's account may have code (EIP-7702): it logs a use of the nonce, and then transfers."""
    payment = payer.authorize(USDC, TO, PRICE)
    chain.call("anvil_setCode", payer.address, "0x" + build_liar_code(payment).hex())
    sent = chain.send(payer.address, encode_call("transfer(address,uint256)", TO, PRICE))
    assert chain.get_balance(USDC, TO) == PRICE
    assert look(chain, payment, sent) == SettlementPending("settling")


def look(chain: LocalChain, payment: SignedPayment, sent: str) -> object:
    """Look with the hash; a look without it must find the same."""
    reader = ChainReader(84532, [chain.url], clock=lambda: datetime.fromtimestamp(chain.time, UTC))
    answers = [reader.look(payment, TERMS, Attempt(SUBMITTED, hashes=hashes)) for hashes in ((), (sent,))]
    reader.close()
    assert answers[0] == answers[1]
    return answers[0]


def settle_together(chain: LocalChain, *payments: SignedPayment) -> str:
    """Settle the payments in one transaction, whether or not each succeeds; return its hash."""
    chain.call("anvil_setCode", BATCH, "0x" + build_batch_code(USDC.address).hex())
    return chain.send(BATCH, "0x" + "".join(encode_transfer(payment)[2:] for payment in payments))


def build_batch_code(target: str) -> bytes:
    """Write a contract that calls `target` with each `CALL_BYTES` of its input in turn."""
    length = b"\x61" + CALL_BYTES.to_bytes(2, "big")  # PUSH2
    before = b"\x5f\x5b\x36\x81\x10\x15\x60"  # 0; loop: is the offset still within the input?
    copy = length + b"\x81\x5f\x37"  # CALLDATACOPY
    call = b"\x5f\x5f" + length + b"\x5f\x5f\x73" + bytes.fromhex(target[2:]) + b"\x5a\xf1\x50"
    again = length + b"\x01\x60\x01\x56"  # add the length to the offset, and jump to the loop
    end = len(before) + 2 + len(copy) + len(call) + len(again)
    return before + bytes([end]) + b"\x57" + copy + call + again + b"\x5b\x00"


def build_liar_code(payment: SignedPayment) -> bytes:
    """Write a contract that logs `AuthorizationUsed` of this payment itself, and calls the token."""
    topics = (payment.nonce, encode_topic(payment.payer), USED)
    log = b"".join(b"\x7f" + bytes.fromhex(topic[2:]) for topic in topics) + b"\x5f\x5f\xa3"  # LOG3
    call = b"\x36\x5f\x5f\x37\x5f\x5f\x36\x5f\x5f\x73" + bytes.fromhex(USDC.address[2:]) + b"\x5a\xf1"
    return log + call + b"\x00"
