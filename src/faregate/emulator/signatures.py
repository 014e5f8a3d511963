"""Who signed an EIP-3009 authorization (EIP-712). Nothing is fetched from a chain.

Only what a token contract would take from a plain wallet is accepted: 65 bytes, `v` 27 or 28, the
lower `s`. So one authorization has one signature. Contract wallets (EIP-1271) would need the chain.
"""

from functools import lru_cache
from typing import Final

from coincurve import PublicKey
from eth_account.messages import SignableMessage, encode_typed_data
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from faregate.emulator.payments import Payment
from faregate.emulator.tokens import Token

_HALF_ORDER: Final = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
_FIELDS: Final = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
)
_TYPE_HASH: Final = keccak(
    text=f"TransferWithAuthorization({','.join(f'{kind} {name}' for name, kind in _FIELDS)})"
)


def signable(payment: Payment, token: Token) -> SignableMessage:
    """The EIP-712 message of this authorization. Written out because it is hashed on every access."""
    words = (
        int(payment.payer, 16),
        int(payment.to, 16),
        payment.value,
        payment.valid_after,
        payment.valid_before,
        int(payment.nonce, 16),
    )
    body = keccak(_TYPE_HASH + b"".join(word.to_bytes(32, "big") for word in words))
    return SignableMessage(b"\x01", _domain_separator(token), body)


def signer_of(payment: Payment, token: Token) -> str | None:
    """The checksum address that signed, or None if the signature is none that the token would take."""
    signature = bytes.fromhex(payment.signature[2:])
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64], "big") > _HALF_ORDER:
        return None
    return _recovered(_digest(signable(payment, token)), signature)


def _digest(message: SignableMessage) -> bytes:
    """What is signed (EIP-191)."""
    return keccak(b"\x19" + message.version + message.header + message.body)


def _recovered(digest: bytes, signature: bytes) -> str | None:
    """The address of the key. libsecp256k1 is asked itself: eth-account takes more than twice the time."""
    plain = signature[:64] + bytes([signature[64] - 27])
    try:
        key = PublicKey.from_signature_and_message(plain, digest, hasher=None)
    except Exception:  # coincurve has no one exception for a point that is not on the curve
        return None
    return _checksum(keccak(key.format(compressed=False)[1:])[-20:])


@lru_cache(maxsize=4096)
def _checksum(address: bytes) -> str:
    return to_checksum_address(address)


@lru_cache(maxsize=16)
def _domain_separator(token: Token) -> bytes:
    domain = {
        "name": token.name,
        "version": token.version,
        "chainId": token.chain,
        "verifyingContract": token.address,
    }
    types = {"Nothing": [{"name": "nothing", "type": "uint256"}]}
    return bytes(encode_typed_data(domain, types, {"nothing": 0}).header)
