"""Permit2 authorizations of the scheme `upto`, as their contracts hash them (EIP-712). Pure.

Apart from the addresses in `permit2`: the paywall reads headers, and does not load what hashes.
"""

from functools import lru_cache
from typing import Final

from eth_utils.crypto import keccak

from faregate.x402.permit2 import PERMIT2, UPTO_PROXY

_PERMISSIONS: Final = "TokenPermissions(address token,uint256 amount)"
_WITNESS: Final = "Witness(address to,address facilitator,uint256 validAfter)"
_PERMIT: Final = (
    "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,"
    "Witness witness)"
)
_PERMISSIONS_HASH: Final = keccak(text=_PERMISSIONS)
_WITNESS_HASH: Final = keccak(text=_WITNESS)
_PERMIT_HASH: Final = keccak(text=_PERMIT + _PERMISSIONS + _WITNESS)
_DOMAIN_HASH: Final = keccak(text="EIP712Domain(string name,uint256 chainId,address verifyingContract)")
_NAME_HASH: Final = keccak(text="Permit2")


def hash_permit(
    *,
    token: str,
    maximum: int,
    nonce: int,
    deadline: int,
    to: str,
    facilitator: str,
    valid_after: int,
) -> bytes:
    """Hash the `PermitWitnessTransferFrom` whose spender is the proxy of `upto`."""
    permitted = _hash(_PERMISSIONS_HASH, int(token, 16), maximum)
    witness = _hash(_WITNESS_HASH, int(to, 16), int(facilitator, 16), valid_after)
    return _hash(_PERMIT_HASH, permitted, int(UPTO_PROXY, 16), nonce, deadline, witness)


@lru_cache(maxsize=16)
def compute_permit2_domain(chain: int) -> bytes:
    """Return the hash of the EIP-712 domain of Permit2 on this chain. It has no version."""
    return _hash(_DOMAIN_HASH, _NAME_HASH, chain, int(PERMIT2, 16))


def _hash(*words: bytes | int) -> bytes:
    return keccak(b"".join(word if isinstance(word, bytes) else word.to_bytes(32, "big") for word in words))
