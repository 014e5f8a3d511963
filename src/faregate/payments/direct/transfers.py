"""The transfer of a signed payment as a transaction of the gas account, and its replacement. Pure."""

from typing import Final

from faregate.payments.abi import encode_call
from faregate.payments.direct.signers import Signer, SigningFailed
from faregate.payments.direct.transactions import (
    Fees,
    GasTransaction,
    hash_transaction,
    read_transaction,
    recover_sender,
)
from faregate.service.payments import SignedTransfer
from faregate.x402.models import SignedPayment

_TRANSFER: Final = (
    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
)


def encode_transfer(payment: SignedPayment) -> bytes:
    """Encode the call of the token that moves the money (EIP-3009).

    The form with v, r and s, which every version of the token has.
    """
    signature = bytes.fromhex(payment.signature[2:])
    call = encode_call(
        _TRANSFER,
        *(payment.payer, payment.to, payment.value, payment.valid_after, payment.valid_before),
        *(payment.nonce, signature[64], signature[:32], signature[32:64]),
    )
    return bytes.fromhex(call[2:])


def sign_transaction(
    transaction: GasTransaction, signer: Signer, *, at: int, replaces: str | None = None
) -> SignedTransfer:
    """Sign the transaction at `at` (Unix seconds). Raises `SigningFailed`."""
    signature = signer.sign(transaction.digest)
    # What is in the books is sent, however often: a signature of somebody else's would block its nonce.
    if recover_sender(transaction.digest, signature) != signer.address:
        raise SigningFailed(f"the signature is not of {signer.address}")
    raw = transaction.encode(signature)
    return SignedTransfer(
        sender=signer.address.lower(),
        chain=transaction.chain,
        gas_nonce=transaction.gas_nonce,
        raw="0x" + raw.hex(),
        transaction_hash=hash_transaction(raw),
        replaces=replaces,
        signed_at=at,
    )


def build_replacement(transfer: SignedTransfer, fees: Fees) -> GasTransaction:
    """Build the same call with the same gas nonce and other fees."""
    old = read_transfer(transfer)
    return GasTransaction(old.chain, old.gas_nonce, fees, old.gas_limit, old.to, old.data)


def read_transfer(transfer: SignedTransfer) -> GasTransaction:
    """Read the transaction of a signed transfer."""
    return read_transaction(bytes.fromhex(transfer.raw[2:]))
