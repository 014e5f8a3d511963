"""Transactions of the gas account are encoded as eth-account, which wallets use, encodes them."""

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from faregate.service.chain.direct.eip1559 import (
    Fees,
    GasTransaction,
    Signature,
    hash_transaction,
    read_transaction,
    recover_sender,
)
from faregate.service.chain.direct.signers import KeySigner

KEY = "0x" + "46" * 32
TRANSACTION = GasTransaction(
    chain=84532,
    gas_nonce=9,
    fees=Fees(maximum=2_000_000_007, priority=1_000_000),
    gas_limit=120_000,
    to="0x036cbd53842c5426634e7929541ec2318f3dcf7e",
    data=bytes.fromhex("e3ee160e") + bytes(range(64)),
)


def sign(transaction: GasTransaction, key: str = KEY) -> bytes:
    return transaction.encode(KeySigner(key).sign(transaction.digest))


def sign_as_wallets_do(transaction: GasTransaction, key: str = KEY) -> tuple[bytes, str]:
    signed = Account.sign_transaction(
        {
            "type": 2,
            "chainId": transaction.chain,
            "nonce": transaction.gas_nonce,
            "maxFeePerGas": transaction.fees.maximum,
            "maxPriorityFeePerGas": transaction.fees.priority,
            "gas": transaction.gas_limit,
            "to": to_checksum_address(transaction.to),
            "value": 0,
            "data": transaction.data,
        },
        key,
    )
    return bytes(signed.raw_transaction), "0x" + bytes(signed.hash).hex()


def test_it_is_encoded_as_wallets_encode_it() -> None:
    raw = sign(TRANSACTION)
    assert (raw, hash_transaction(raw)) == sign_as_wallets_do(TRANSACTION)


@settings(max_examples=50)
@given(
    nonce=st.integers(0, 2**64 - 2),
    maximum=st.integers(0, 2**80),
    priority=st.integers(0, 2**80),
    gas=st.integers(21_000, 2**24),
    data=st.binary(max_size=400),
    key=st.integers(1, 2**200),
)
def test_any_transaction_is(nonce: int, maximum: int, priority: int, gas: int, data: bytes, key: int) -> None:
    transaction = GasTransaction(8453, nonce, Fees(maximum, priority), gas, TRANSACTION.to, data)
    raw = sign(transaction, f"{key:064x}")
    assert (raw, hash_transaction(raw)) == sign_as_wallets_do(transaction, f"{key:064x}")
    assert read_transaction(raw) == transaction


def test_who_signed_it_is_found() -> None:
    signer = KeySigner(KEY)
    made = signer.sign(TRANSACTION.digest)
    assert recover_sender(TRANSACTION.digest, made) == signer.address
    assert recover_sender(TRANSACTION.digest, Signature(0, 0, 0)) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x02", b"\x02\xc0", b"\x01" + sign(TRANSACTION)[1:], sign(TRANSACTION)[:-1], b"\x02\x80"],
    ids=["empty", "type only", "no fields", "another type", "cut", "no list"],
)
def test_another_transaction_is_not_read(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a transaction of the gas account"):
        read_transaction(raw)
