"""Signatures of EIP-3009 and Permit2 authorizations (EIP-712), checked without access to a chain.

A signature is accepted only in the form that a token contract accepts from a plain wallet: 65 bytes, `v` 27
or 28, the lower `s`. So an authorization has exactly one signature. Contract wallets (EIP-1271) are not
supported: their signatures can only be checked on the chain.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from eth_keys.backends import get_backend
from eth_keys.backends.base import BaseECCBackend
from eth_keys.backends.coincurve import CoinCurveECCBackend
from eth_keys.datatypes import PrivateKey, Signature
from eth_keys.exceptions import BadSignature
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from faregate.x402.models import SignedPayment
from faregate.x402.permit_hashes import compute_permit2_domain, hash_permit
from faregate.x402.tokens import Token

ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""A private key is a number from 1 to one below this."""


class Curve:
    """secp256k1 by eth-keys, whose default backend is coincurve where that is installed, else pure Python.

    Private keys are 32 bytes, public keys 64; a signature is r, s and the recovery bit, 65 bytes.
    """

    def __init__(self, backend: BaseECCBackend | None = None) -> None:
        self.backend = backend or get_backend()

    def sign(self, key: bytes, digest: bytes) -> bytes:
        """Sign deterministically (RFC 6979), with the lower `s`."""
        return self.backend.ecdsa_sign(digest, PrivateKey(key, backend=self.backend)).to_bytes()

    def public_key(self, key: bytes) -> bytes:
        return PrivateKey(key, backend=self.backend).public_key.to_bytes()

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        """Return the public key that signed, or None for a signature that no key makes."""
        backend: Any = self.backend
        if isinstance(self.backend, CoinCurveECCBackend):
            return _recover_by_coincurve(backend.keys, digest, signature)
        try:
            read = Signature(signature, backend=self.backend)
            return self.backend.ecdsa_recover(digest, read).to_bytes()
        except (BadSignature, ValidationError):
            return None


def _recover_by_coincurve(keys: Any, digest: bytes, signature: bytes) -> bytes | None:
    # eth-keys takes longer to convert than coincurve to compute, and each payment has a signature.
    try:
        recovered = keys.PublicKey.from_signature_and_message(signature, digest, hasher=None)
    except ValueError:
        return None
    public_key: bytes = recovered.format(compressed=False)
    return public_key[1:]


CURVE: Final = Curve()
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


class TypedData(NamedTuple):
    """The message to sign (EIP-191, EIP-712), in the parts that eth-account uses.

    eth-account itself is not used: its import takes longer than most tests of a seller's app.
    """

    version: bytes
    header: bytes
    body: bytes


def build_typed_data(payment: SignedPayment, token: Token) -> TypedData:
    """Build the EIP-712 message of this authorization."""
    if payment.facilitator is not None:
        body = hash_permit(
            token=token.address,
            maximum=payment.value,
            nonce=int(payment.nonce),
            deadline=payment.deadline,
            to=payment.to,
            facilitator=payment.facilitator,
            valid_after=payment.valid_after,
        )
        return TypedData(b"\x01", compute_permit2_domain(token.chain), body)
    words = (
        int(payment.payer, 16),
        int(payment.to, 16),
        payment.value,
        payment.valid_after,
        payment.valid_before,
        int(payment.nonce, 16),
    )
    body = keccak(_TYPE_HASH + b"".join(word.to_bytes(32, "big") for word in words))
    return TypedData(b"\x01", compute_domain_separator(token), body)


def sign(key: bytes, message: TypedData) -> str:
    """Sign the message; the signature is deterministic, as hex."""
    signature = CURVE.sign(key, _digest(message))
    # Contracts take the recovery bit as 27 or 28.
    return "0x" + signature[:64].hex() + f"{signature[64] + 27:02x}"


def derive_address(key: bytes) -> str:
    """Return the checksum address of this private key."""
    return hash_address(CURVE.public_key(key))


def recover_signer(payment: SignedPayment, token: Token) -> str | None:
    """Return the checksum address that signed; None for a signature that the token would refuse."""
    signature = bytes.fromhex(payment.signature[2:])
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64], "big") > _HALF_ORDER:
        return None
    return _recover(_digest(build_typed_data(payment, token)), signature)


def _digest(message: TypedData) -> bytes:
    return keccak(b"\x19" + message.version + message.header + message.body)


def _recover(digest: bytes, signature: bytes) -> str | None:
    """Return the address of the signer. eth-account would take more than twice the time."""
    key = CURVE.recover(digest, signature[:64] + bytes([signature[64] - 27]))
    return None if key is None else hash_address(key)


@lru_cache(maxsize=4096)
def hash_address(public_key: bytes) -> str:
    return to_checksum_address(keccak(public_key)[-20:])


@lru_cache(maxsize=16)
def compute_domain_separator(token: Token) -> bytes:
    """Return the hash of the EIP-712 domain that this token signs with."""
    numbers = (token.chain, int(token.address, 16))
    names = keccak(text=token.name) + keccak(text=token.version)
    return keccak(_DOMAIN_HASH + names + b"".join(number.to_bytes(32, "big") for number in numbers))
