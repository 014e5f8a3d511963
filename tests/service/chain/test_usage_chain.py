"""What a chain proves about payments of `upto`: with the real Permit2, signed by the official client."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from examples.chain.token import encode_call

from faregate.rules.payments import Attempt, PaymentRefused, PaymentSettled
from faregate.service.chain import authorization_endings
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.permit_calls import encode_settlement
from faregate.service.chain.received_transfers import list_transfers_of, read_transfers
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import UPTO_PROXY
from tests.service.chain.books import RECONCILING, SETTLING, SUBMITTED, TERMS, TO, MakeReader
from tests.service.chain.test_chain_search import forget_states, limit_logs
from tests.service.chain.usage_books import MAXIMUM, OTHERWISE, USED, UsageBooks, spoil
from tests.support.chain import EURC, USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcProxy

THIEF = "0x" + "7e" * 20


@pytest.fixture
def usage(chain: LocalChain, payer: ChainPayer) -> UsageBooks:
    return UsageBooks(chain, payer)


def test_what_was_used_is_what_was_paid(usage: UsageBooks, reader: ChainReader) -> None:
    payment, chain = usage.pay(), usage.chain
    before = chain.get_balance(USDC, usage.payer.address)
    assert usage.look(reader, payment) == SETTLING
    sent = usage.settle(payment)
    assert usage.look(reader, payment, sent) == PaymentSettled(sent, USED)
    assert usage.look(reader, payment) == PaymentSettled(sent, USED), "without the hash"
    assert chain.get_balance(USDC, TO) == USED == before - chain.get_balance(USDC, usage.payer.address)


@pytest.mark.parametrize("amount", [1, USED - 1, USED + 1, MAXIMUM])
def test_the_chain_says_how_much_was_paid(usage: UsageBooks, reader: ChainReader, amount: int) -> None:
    """Whatever the facilitator was asked for."""
    payment = usage.pay()
    sent = usage.settle(payment, amount)
    assert [usage.look(reader, payment, sent), usage.look(reader, payment)] == [
        PaymentSettled(sent, amount)
    ] * 2


def test_a_payment_settles_once(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    first, second = usage.settle(payment), usage.settle(payment)
    assert not usage.has_succeeded(second)
    assert usage.look(reader, payment, second) == PaymentSettled(first, USED)
    assert usage.chain.get_balance(USDC, TO) == USED


def test_only_the_named_facilitator_settles(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    sent = usage.settle(payment, 1, sender=usage.chain.accounts[2])
    assert not usage.has_succeeded(sent)
    assert usage.look(reader, payment, sent) == SETTLING


def test_each_of_two_like_payments_in_a_block_has_its_own_transfer(
    usage: UsageBooks, reader: ChainReader
) -> None:
    first, second = usage.pay(), usage.pay()
    usage.chain.set_automine(False)
    hashes = usage.settle(first), usage.settle(second)
    usage.chain.mine()
    for payment, sent, other in ((first, *hashes), (second, *hashes[::-1])):
        assert usage.look(reader, payment) == PaymentSettled(sent, USED)
        assert usage.look(reader, payment, other) == PaymentSettled(sent, USED)


def test_confirmations_are_waited_for(usage: UsageBooks, make_reader: MakeReader) -> None:
    reader, payment = make_reader(usage.chain.url, confirmations=3), usage.pay()
    sent = usage.settle(payment)
    usage.chain.mine(1)
    assert [usage.look(reader, payment, sent), usage.look(reader, payment)] == [SETTLING, SETTLING]
    usage.chain.mine(1)
    assert usage.look(reader, payment) == PaymentSettled(sent, USED)


def test_a_reorganisation_opens_it_again(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    sent = usage.settle(payment)
    usage.chain.reorganise(1)
    assert usage.look(reader, payment, sent) == SETTLING
    again = usage.settle(payment, USED)
    assert usage.look(reader, payment, sent) == PaymentSettled(again, USED)


def test_a_reorganisation_during_the_search_refuses_nothing(
    usage: UsageBooks, reader: ChainReader, proxy: RpcProxy
) -> None:
    """The crash campaign found it: the block that had set the bit was replaced, and its place became safe."""
    payment, replaced = usage.pay(), list[str]()
    usage.chain.mine(5)
    usage.settle(payment)

    def replace_block(params: list[Any], result: Any) -> Any:
        if params[1] != "latest" and not replaced:
            replaced.append(params[1])
            usage.chain.reorganise(1)
            usage.chain.mine(10)
        return result

    proxy.change["eth_call"] = replace_block
    assert usage.look(reader, payment) == RECONCILING
    assert replaced
    assert usage.look(reader, payment) == SETTLING, "it is unused"
    again = usage.settle(payment)
    assert usage.look(reader, payment) == PaymentSettled(again, USED)


def test_what_follows_the_call_is_not_read(usage: UsageBooks, reader: ChainReader) -> None:
    """Facilitators add their mark to what they send."""
    payment = usage.pay()
    sent = usage.settle(payment, suffix="c0ffee" * 11)
    assert usage.look(reader, payment) == PaymentSettled(sent, USED)


def test_a_payment_with_its_approval_in_the_same_call(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    permit = encode_call(
        "settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),((address,uint256),uint256,uint256),"
        "uint256,address,(address,address,uint256),bytes)",
        *(payment.value, payment.deadline, 0, 0, 27),
    )
    settle = encode_settlement(payment, USDC, USED)
    # The signature stands five words further.
    rest = settle[4 : 4 + 9 * 32] + (15 * 32).to_bytes(32, "big") + settle[4 + 10 * 32 :]
    sent = usage.chain.send(UPTO_PROXY, permit + rest.hex(), sender=usage.facilitator)
    assert usage.has_succeeded(sent)
    assert [usage.look(reader, payment, sent), usage.look(reader, payment)] == [
        PaymentSettled(sent, USED)
    ] * 2


# Other ends


def test_a_cancelled_payment(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    usage.invalidate(payment.nonce)
    assert usage.look(reader, payment) == SETTLING, "a reorganisation may take it away"
    sent = usage.settle(payment)
    usage.chain.mine()
    assert [usage.look(reader, payment), usage.look(reader, payment, sent)] == [OTHERWISE] * 2


@pytest.mark.parametrize("is_same_block", [False, True])
def test_a_paid_nonce_that_is_cancelled_later_stays_paid(
    usage: UsageBooks, reader: ChainReader, is_same_block: bool
) -> None:
    """Permit2 logs a cancellation also where there is nothing to cancel any more."""
    payment = usage.pay()
    usage.chain.fund(usage.payer.address)
    usage.chain.set_automine(not is_same_block)
    sent = usage.settle(payment)
    usage.invalidate(payment.nonce)
    usage.chain.set_automine(True)
    usage.chain.mine(3)
    assert usage.look(reader, payment) == PaymentSettled(sent, USED)


@pytest.mark.parametrize(
    "changes",
    [
        # For a unit instead of what was used: the payer has put itself in the facilitator's place.
        {"facilitator": "payer"},
        {"to": THIEF},
        {"value": MAXIMUM + 1},
        {"valid_after": 1},
        {"valid_before": 4_000_000_000},
    ],
)
def test_another_permit_with_the_same_nonce_is_no_payment(
    usage: UsageBooks, reader: ChainReader, changes: dict[str, Any]
) -> None:
    payment = usage.pay()
    if changes == {"facilitator": "payer"}:
        changes = {"facilitator": usage.payer.address.lower()}
    other = spoil(payment, usage.payer, **changes)
    usage.chain.fund(usage.payer.address)
    usage.chain.call("anvil_impersonateAccount", usage.payer.address)
    spent = usage.settle(other, 1, sender=other.facilitator)
    assert usage.has_succeeded(spent)
    late = usage.settle(payment)
    usage.chain.mine(2)
    for hashes in ((), (spent,), (late,)):
        found = usage.look(reader, payment, *hashes)
        assert isinstance(found, PaymentRefused), changes
        assert "another payment" in found.reason


def test_the_same_nonce_for_another_token_is_no_payment(usage: UsageBooks, reader: ChainReader) -> None:
    payment, chain = usage.pay(), usage.chain
    chain.mint(EURC, usage.payer.address, MAXIMUM)
    chain.approve_permit2(EURC, usage.payer.address)
    other = usage.payer.authorize(
        EURC,
        TO,
        MAXIMUM,
        nonce=payment.nonce,
        facilitator=usage.facilitator,
        valid_before=payment.valid_before,
    )
    spent = chain.send(
        UPTO_PROXY, "0x" + encode_settlement(other, EURC, USED).hex(), sender=usage.facilitator
    )
    assert usage.has_succeeded(spent)
    chain.mine(2)
    refused = PaymentRefused("the payer used the authorization's nonce for another payment")
    assert [usage.look(reader, payment), usage.look(reader, payment, spent)] == [refused] * 2


def test_a_transfer_of_the_same_amount_is_no_payment(usage: UsageBooks, reader: ChainReader) -> None:
    """The payer cancels the nonce, and sends the seller as much in another way, in the same block."""
    payment, chain = usage.pay(), usage.chain
    chain.fund(usage.payer.address)
    chain.set_automine(False)
    usage.invalidate(payment.nonce)
    moved = chain.move(USDC, usage.payer.address, TO, USED)
    chain.set_automine(True)
    chain.mine(3)
    assert chain.get_balance(USDC, TO) == USED
    assert [usage.look(reader, payment), usage.look(reader, payment, moved)] == [OTHERWISE] * 2


def test_a_call_that_came_too_late_is_not_the_end(usage: UsageBooks, reader: ChainReader) -> None:
    payment, chain = usage.pay(), usage.chain
    chain.set_automine(False)
    usage.invalidate(payment.nonce)
    late = usage.settle(payment)
    chain.set_automine(True)
    chain.mine(3)
    assert not usage.has_succeeded(late)
    assert [usage.look(reader, payment), usage.look(reader, payment, late)] == [OTHERWISE] * 2


def test_a_cancellation_beside_another_payment_is_seen(usage: UsageBooks, reader: ChainReader) -> None:
    payment, other, chain = usage.pay(), usage.pay(), usage.chain
    chain.fund(usage.payer.address)
    chain.set_automine(False)
    usage.invalidate(payment.nonce)
    sent = usage.settle(other)
    chain.set_automine(True)
    chain.mine(3)
    assert usage.look(reader, other) == PaymentSettled(sent, USED)
    assert [usage.look(reader, payment), usage.look(reader, payment, sent)] == [OTHERWISE] * 2


def test_what_a_contract_settles_is_not_proven(usage: UsageBooks, reader: ChainReader) -> None:
    """The call stands inside another one, which may hold calls that failed: neither paid nor refused."""
    forwarder = "0x" + "fa" * 20
    call = b"\x36\x5f\x5f\x37\x5f\x5f\x36\x5f\x5f\x73" + bytes.fromhex(UPTO_PROXY[2:]) + b"\x5a\xf1\x00"
    usage.chain.call("anvil_setCode", forwarder, "0x" + call.hex())
    payment = usage.payer.authorize(USDC, TO, MAXIMUM, facilitator=forwarder)
    sent = usage.chain.send(forwarder, "0x" + encode_settlement(payment, USDC, USED).hex())
    usage.chain.mine(2)
    assert usage.chain.get_balance(USDC, TO) == USED
    assert [usage.look(reader, payment, sent), usage.look(reader, payment)] == [RECONCILING] * 2


# Time


def test_an_unused_payment_is_over_after_its_deadline(usage: UsageBooks, reader: ChainReader) -> None:
    chain = usage.chain
    end = chain.time + 60
    payment = usage.payer.authorize(USDC, TO, MAXIMUM, valid_before=end + 1, facilitator=usage.facilitator)
    assert payment.deadline == end
    chain.call("evm_setNextBlockTimestamp", end)
    chain.mine(1)
    chain.call("anvil_setBlockTimestampInterval", 0)
    assert usage.look(reader, payment) == SETTLING
    chain.call("anvil_setBlockTimestampInterval", 1)
    chain.mine(3)
    assert usage.look(reader, payment) == PaymentRefused("the authorization expired unused")


def test_permit2_takes_it_in_the_second_of_the_deadline(usage: UsageBooks, reader: ChainReader) -> None:
    end = usage.chain.time + 60
    payment = usage.payer.authorize(USDC, TO, MAXIMUM, valid_before=end + 1, facilitator=usage.facilitator)
    usage.chain.call("evm_setNextBlockTimestamp", end)
    sent = usage.settle(payment)
    assert usage.has_succeeded(sent)
    assert usage.look(reader, payment) == PaymentSettled(sent, USED)
    late = usage.payer.authorize(USDC, TO, MAXIMUM, valid_before=end + 1, facilitator=usage.facilitator)
    usage.chain.call("evm_setNextBlockTimestamp", end + 1)
    assert not usage.has_succeeded(usage.settle(late))


# Nodes


@pytest.mark.parametrize("has_archive", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_payment_is_found_in_many_blocks(
    usage: UsageBooks,
    reader: ChainReader,
    proxy: RpcProxy,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    has_archive: bool,
) -> None:
    monkeypatch.setattr(authorization_endings, "LOG_BLOCKS", 16)
    payments = [usage.pay() for _ in range(3)]
    usage.chain.mine(20)
    hashes = [usage.settle(payment) for payment in payments]
    usage.chain.mine(20)
    if not has_archive:
        forget_states(proxy, lambda: usage.chain.head)
        limit_logs(proxy, limit)
    for payment, sent in zip(payments, hashes, strict=True):
        assert usage.look(reader, payment) == PaymentSettled(sent, USED)


def test_without_old_states_a_cancellation_is_not_proven(
    usage: UsageBooks, reader: ChainReader, proxy: RpcProxy
) -> None:
    payment = usage.pay()
    usage.invalidate(payment.nonce)
    usage.chain.mine(5)
    forget_states(proxy, lambda: usage.chain.head)
    assert usage.look(reader, payment) == RECONCILING


def _strip_logs(params: list[Any], result: Any) -> Any:
    return {**result, "logs": []}


def _name_nobody(params: list[Any], result: Any) -> Any:
    return {**result, "to": THIEF}


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("eth_getTransactionReceipt", _strip_logs),
        ("eth_getTransactionReceipt", lambda params, result: None),
        ("eth_getTransactionByHash", _name_nobody),
        ("eth_getTransactionByHash", lambda params, result: {**result, "hash": "0x" + "11" * 32}),
        ("eth_getTransactionByHash", lambda params, result: {**result, "input": "0xzz"}),
        ("eth_getTransactionByHash", lambda params, result: None),
    ],
)
def test_a_node_that_leaves_something_out_proves_nothing(
    usage: UsageBooks, reader: ChainReader, proxy: RpcProxy, method: str, change: Any
) -> None:
    payment = usage.pay()
    sent = usage.settle(payment)
    usage.chain.mine(3)
    proxy.change[method] = change
    found = [usage.look(reader, payment, sent), usage.look(reader, payment)]
    # Where the transaction is not given alone, it is in its block.
    proven = RECONCILING if method == "eth_getTransactionReceipt" else PaymentSettled(sent, USED)
    assert found == [proven] * 2


def test_a_node_without_logs_proves_a_payment_and_refuses_none(
    usage: UsageBooks, reader: ChainReader, proxy: RpcProxy
) -> None:
    """The crash campaign found it: one that shows no transfers seemed to say that nothing was paid."""
    payment = usage.pay()
    sent = usage.settle(payment)
    usage.chain.mine(3)
    proxy.change["eth_getLogs"] = lambda params, result: []
    assert usage.look(reader, payment) == PaymentSettled(sent, USED)
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: None
    assert usage.look(reader, payment) == RECONCILING


def test_a_nonce_that_was_used_before_is_not_believed(usage: UsageBooks, reader: ChainReader) -> None:
    payment = usage.pay()
    usage.settle(payment)
    usage.chain.mine(100)
    usage.from_block = usage.chain.head
    usage.chain.mine(2)
    assert usage.look(reader, payment) == RECONCILING


def test_no_contract_says_nothing(chain: LocalChain, payer: ChainPayer, make_reader: MakeReader) -> None:
    """A chain without Permit2: its nonces are not taken for unused."""
    payment = payer.authorize(USDC, TO, MAXIMUM, facilitator=chain.accounts[1])
    late = ChainReader(USDC.chain, [chain.url], clock=lambda: datetime.fromtimestamp(time.time() + 900, UTC))
    chain.advance_time(1000)
    assert late.look(payment, TERMS, Attempt(SUBMITTED)) == RECONCILING
    late.close()


def test_amounts_that_were_not_authorized_are_never_encoded() -> None:
    payment: SignedPayment = ChainPayer().authorize(USDC, TO, MAXIMUM, facilitator=THIEF)
    for amount in (0, -1, MAXIMUM + 1):
        with pytest.raises(ValueError, match="not within what was authorized"):
            encode_settlement(payment, USDC, amount)


# What a seller received


def test_a_transfer_names_the_nonce_that_permit2_took(usage: UsageBooks, reader: ChainReader) -> None:
    chain = usage.chain
    used, fixed = usage.pay(), usage.payer.authorize(USDC, TO, 7)
    hashes = [usage.settle(used), chain.settle(USDC, fixed), chain.move(USDC, usage.payer.address, TO, USED)]
    pages = read_transfers(reader.open_view(), (USDC, EURC), [TO], 0)
    found = [transfer for page in pages for transfer in page.transfers]
    assert [(one.transaction_hash, one.value, one.nonce) for one in found] == [
        (hashes[0], USED, used.nonce),
        (hashes[1], 7, fixed.nonce),
        (hashes[2], USED, None),
    ]
    listed = list_transfers_of(reader.open_view(), USDC, hashes[0], TO)
    assert listed == (found[0],)
