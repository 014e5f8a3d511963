"""A transaction of the gas account (EIP-1559): its encoding, its hash, and what is read back from it.

RLP is by the `rlp` library. eth-account is not used: its import takes longer than that of the whole service.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import rlp  # pyright: ignore[reportMissingTypeStubs]
from eth_utils.crypto import keccak

from faregate.x402.eip712 import CURVE, hash_address

_TYPE: Final = b"\x02"
_FIELDS: Final = 9
"""What is signed; y parity, r and s follow it."""


class Signature(NamedTuple):
    """A signature of secp256k1. `v` is the y parity, 0 or 1; `s` is the lower one."""

    r: int
    s: int
    v: int


@dataclass(frozen=True, slots=True)
class Fees:
    """What a transaction pays for each unit of gas, in wei: at most `maximum`, of it `priority` as a tip."""

    maximum: int
    priority: int


@dataclass(frozen=True, slots=True)
class GasTransaction:
    """A call of the contract `to`, unsigned. It moves no ether."""

    chain: int
    gas_nonce: int
    fees: Fees
    gas_limit: int
    to: str
    data: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """What the gas account signs, 32 bytes."""
        return keccak(_TYPE + _encode(self._list_fields()))

    def encode(self, signature: Signature) -> bytes:
        """Return the raw transaction, to be sent as it is."""
        return _TYPE + _encode([*self._list_fields(), signature.v, signature.r, signature.s])

    def _list_fields(self) -> list[object]:
        to = bytes.fromhex(self.to[2:])
        fees = (self.fees.priority, self.fees.maximum)
        return [self.chain, self.gas_nonce, *fees, self.gas_limit, to, 0, self.data, []]


def hash_transaction(raw: bytes) -> str:
    """Return the hash of a raw transaction, as nodes report it."""
    return "0x" + keccak(raw).hex()


def read_transaction(raw: bytes) -> GasTransaction:
    """Read a raw transaction that `GasTransaction.encode` made. Raises `ValueError` for any other."""
    fields = _decode(raw)
    chain, gas_nonce, priority, maximum, gas_limit = (int.from_bytes(value, "big") for value in fields[:5])
    to = "0x" + fields[5].hex()
    return GasTransaction(chain, gas_nonce, Fees(maximum, priority), gas_limit, to, fields[7])


def recover_sender(digest: bytes, signature: Signature) -> str | None:
    """Return the checksum address that signed; None for a signature that no key makes."""
    joined = signature.r.to_bytes(32, "big") + signature.s.to_bytes(32, "big") + bytes([signature.v])
    key = CURVE.recover(digest, joined)
    return None if key is None else hash_address(key)


def _encode(values: list[object]) -> bytes:
    return cast("bytes", cast(Any, rlp).encode(values))


def _decode(raw: bytes) -> list[bytes]:
    try:
        fields = cast("list[bytes]", cast(Any, rlp).decode(raw[1:]))
    except cast(Any, rlp).exceptions.DecodingError:
        fields = []
    if raw[:1] != _TYPE or len(fields) != _FIELDS + len(Signature._fields) or fields[6] or fields[8]:
        raise ValueError("not a transaction of the gas account")
    return fields
