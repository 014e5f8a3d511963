"""Who signed an EIP-3009 authorization (EIP-712). Nothing is fetched from a chain.

Only what a token contract would take from a plain wallet is accepted: 65 bytes, `v` 27 or 28, the
lower `s`. So one authorization has one signature. Contract wallets (EIP-1271) would need the chain.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from faregate.x402.curve import CURVE, ORDER
from faregate.x402.models import Payment
from faregate.x402.tokens import Token

_HALF_ORDER: Final = ORDER // 2
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
_DOMAIN_HASH: Final = keccak(
    text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)


class Signable(NamedTuple):
    """What is signed (EIP-191, EIP-712), in the parts that eth-account has for it.

    eth-account itself is not asked: to import it takes longer than most tests of a shop.
    """

    version: bytes
    header: bytes
    body: bytes


def signable(payment: Payment, token: Token) -> Signable:
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
    return Signable(b"\x01", _domain_separator(token), body)


def sign(key: bytes, message: Signable) -> str:
    """The one signature that this private key makes of it, hex."""
    made = CURVE.sign(key, _digest(message))
    return "0x" + made[:64].hex() + f"{made[64] + 27:02x}"


def address_of(key: bytes) -> str:
    """The checksum address of this private key."""
    return _address(CURVE.public_key(key))


def signer_of(payment: Payment, token: Token) -> str | None:
    """The checksum address that signed, or None if the signature is none that the token would take."""
    signature = bytes.fromhex(payment.signature[2:])
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64], "big") > _HALF_ORDER:
        return None
    return _recovered(_digest(signable(payment, token)), signature)


def _digest(message: Signable) -> bytes:
    return keccak(b"\x19" + message.version + message.header + message.body)


def _recovered(digest: bytes, signature: bytes) -> str | None:
    """The address of the key. eth-account, which could tell it too, takes more than twice the time."""
    key = CURVE.recover(digest, signature[:64] + bytes([signature[64] - 27]))
    return None if key is None else _address(key)


def _address(public_key: bytes) -> str:
    return _checksum(keccak(public_key)[-20:])


@lru_cache(maxsize=4096)
def _checksum(address: bytes) -> str:
    return to_checksum_address(address)


@lru_cache(maxsize=16)
def _domain_separator(token: Token) -> bytes:
    numbers = (token.chain, int(token.address, 16))
    names = keccak(text=token.name) + keccak(text=token.version)
    return keccak(_DOMAIN_HASH + names + b"".join(number.to_bytes(32, "big") for number in numbers))
