"""What logs prove, and what a node's answer must look like to be read at all. No chain, no network."""

from typing import Any

import pytest
from pydantic import ValidationError

from faregate.service.chain.abi import encode_topic, encode_word
from faregate.service.chain.evidence import (
    CANCELED,
    TRANSFER,
    USED,
    Block,
    Effect,
    Log,
    Receipt,
    build_block_filter,
    build_end_filter,
    read_effect,
    select_logs,
)
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import TOKENS

TOKEN = TOKENS["test", "USDC"]
PAYER, SELLER, STRANGER = (f"0x{digit * 40}" for digit in "abc")
NONCE = "0x" + "1" * 64
PAYMENT = SignedPayment(PAYER, SELLER, 10_000, 0, 2**40, NONCE, "0x", "proof")
HASH, OTHER_HASH = "0x" + "2" * 64, "0x" + "3" * 64


def log(index: int, *topics: str, data: str = "0x", address: str = TOKEN.address, **fields: Any) -> Log:
    shown = {
        "address": address,
        "topics": topics,
        "data": data,
        "logIndex": hex(index),
        "blockNumber": "0x10",
        "blockHash": HASH,
        "transactionHash": HASH,
    }
    return Log.model_validate({**shown, **fields})


def use(index: int, event: str = USED, payer: str = PAYER, nonce: str = NONCE, **fields: Any) -> Log:
    return log(index, event, encode_topic(payer), encode_topic(nonce), **fields)


def transfer(
    index: int,
    to: str = SELLER,
    value: int = 10_000,
    payer: str = PAYER,
    event: str = TRANSFER,
    **fields: Any,
) -> Log:
    data = "0x" + encode_word(value).hex()
    return log(index, event, encode_topic(payer), encode_topic(to), data=data, **fields)


def receipt(*logs: Log, status: str = "0x1") -> Receipt:
    shown = {"transactionHash": HASH, "blockHash": HASH, "blockNumber": "0x10", "status": status}
    return Receipt.model_validate({**shown, "logs": logs})


def effect(*logs: Log, status: str = "0x1") -> Effect:
    return read_effect(receipt(*logs, status=status), TOKEN, PAYMENT)


def test_the_use_and_the_transfer_right_after_it_prove_a_payment() -> None:
    assert effect(use(4), transfer(5)) is Effect.PAID
    assert effect(transfer(5), use(4)) is Effect.PAID  # the order is that of the numbers


def test_a_transaction_that_reverted_proves_nothing() -> None:
    assert effect(use(4), transfer(5), status="0x0") is Effect.NOTHING
    assert effect(use(4), transfer(5), status="0x2") is Effect.NOTHING


def test_a_cancelled_authorization_is_one() -> None:
    assert effect(use(4, CANCELED)) is Effect.CANCELED


@pytest.mark.parametrize(
    "shown",
    [
        transfer(5, to=STRANGER),
        transfer(5, value=9_999),
        transfer(5, value=10_001),
    ],
)
def test_another_transfer_of_the_payer_is_another_use(shown: Log) -> None:
    """The payer signed the same nonce twice. A true transfer elsewhere pays for something else."""
    assert effect(use(4), shown, transfer(6)) is Effect.USED_OTHERWISE
    assert effect(transfer(3), use(4), shown) is Effect.USED_OTHERWISE


@pytest.mark.parametrize(
    "logs",
    [
        (),
        (transfer(5),),
        (use(4),),
        (use(4), transfer(6)),
        (use(4), transfer(3)),
        (use(4), transfer(5, address=STRANGER)),
        (use(4), transfer(5, payer=STRANGER)),
        (use(4), transfer(5, event=USED)),
        (use(4, address=STRANGER), transfer(5)),
        (use(4, payer=STRANGER), transfer(5)),
        (use(4, nonce=OTHER_HASH), transfer(5)),
        (use(4, TRANSFER), transfer(5)),
        (use(4, CANCELED, address=STRANGER),),
        (use(4, CANCELED, payer=STRANGER),),
        (use(4, CANCELED, nonce=OTHER_HASH),),
    ],
)
def test_logs_of_anything_else_prove_nothing(logs: tuple[Log, ...]) -> None:
    assert effect(*logs) is Effect.NOTHING


def test_the_logs_of_a_transaction_are_those_of_its_block_and_hash() -> None:
    end, paid = use(4), transfer(5)
    others = (transfer(5, transactionHash=OTHER_HASH), transfer(5, blockHash=OTHER_HASH))
    part = select_logs(end, (*others, end, paid))
    assert part == receipt(end, paid)
    assert read_effect(select_logs(end, (end, paid)), TOKEN, PAYMENT) is Effect.PAID


def test_filters_ask_for_the_logs_of_this_payer_in_these_blocks() -> None:
    payer, nonce = encode_topic(PAYER), encode_topic(NONCE)
    asked = {"address": TOKEN.address, "fromBlock": "0xa", "toBlock": "0x14"}
    assert build_end_filter(TOKEN, PAYMENT, 10, 20) == {**asked, "topics": [[USED, CANCELED], payer, nonce]}
    asked["toBlock"] = "0xa"
    topics = [[USED, CANCELED, TRANSFER], payer]
    assert build_block_filter(TOKEN, PAYMENT, 10) == {**asked, "topics": topics}


@pytest.mark.parametrize(
    "number", ["10", "1", "", "0", "-0x1", "0x", "x1", "0xg", "0x-1", 16, 1.5, None, True, [], {}]
)
def test_a_quantity_is_hex_that_starts_with_0x(number: Any) -> None:
    """A decimal `10` read as hex would be 16: a wrong block, time or status."""
    with pytest.raises(ValidationError, match="number"):
        Block.model_validate({"number": number, "hash": HASH, "timestamp": "0x1"})
    with pytest.raises(ValidationError, match="status"):
        receipt(status=number)


def test_a_quantity_is_read_whatever_its_case() -> None:
    block = Block.model_validate({"number": "0x1aF", "hash": HASH.upper(), "timestamp": "0x0"})
    assert (block.number, block.hash, block.timestamp, block.baseFeePerGas) == (0x1AF, HASH, 0, None)
