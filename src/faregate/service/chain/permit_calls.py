"""Calls of the proxy of the scheme `upto`: the one that settles a payment, and what a transaction called.

A facilitator is a plain account, so it calls the proxy itself: no call of it stands inside another one.
"""

from typing import Final, NamedTuple

from eth_utils.crypto import keccak

from faregate.service.chain.abi import WORD, encode_word
from faregate.service.chain.evidence import ChainTransaction
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import UPTO_PROXY
from faregate.x402.tokens import Token

_PERMIT: Final = "((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes"
_SETTLE: Final = keccak(text=f"settle({_PERMIT})")[:4]
_APPROVE_AND_SETTLE: Final = keccak(
    text=f"settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),{_PERMIT})"
)[:4]
"""Takes the payer's approval of Permit2 (EIP-2612) first."""
_FIRST_WORD: Final = {_SETTLE: 0, _APPROVE_AND_SETTLE: 5}
"""Where the permit begins, by function. All its parts have a fixed size."""
_WORDS: Final = 9
_ADDRESS_BYTES: Final = 20
_SIGNATURE_PLACE: Final = (_WORDS + 1) * WORD


class PermitCall(NamedTuple):
    """What a call asks Permit2 for; addresses are in lower case, amounts in atomic units.

    The payer signed all of it but `amount`, which the facilitator chooses.
    """

    token: str
    maximum: int
    nonce: int
    deadline: int
    amount: int
    payer: str
    to: str
    facilitator: str
    valid_after: int


def build_permit_call(payment: SignedPayment, token: Token, amount: int) -> PermitCall:
    """Build the call that settles this amount of the payment."""
    return PermitCall(
        token=token.address.lower(),
        maximum=payment.value,
        nonce=int(payment.nonce),
        deadline=payment.deadline,
        amount=amount,
        payer=payment.payer,
        to=payment.to,
        facilitator=payment.facilitator or "",
        valid_after=payment.valid_after,
    )


def encode_settlement(payment: SignedPayment, token: Token, amount: int) -> bytes:
    """Encode the call that settles this amount. Raises `ValueError` for one that was not authorized."""
    if not 0 < amount <= payment.value:
        raise ValueError(f"{amount} is not within what was authorized")
    signature = bytes.fromhex(payment.signature[2:])
    arguments: tuple[int | str, ...] = build_permit_call(payment, token, amount)
    words = map(encode_word, (*arguments, _SIGNATURE_PLACE, len(signature)))
    return _SETTLE + b"".join(words) + signature + bytes(-len(signature) % WORD)


def read_permit_call(transaction: ChainTransaction) -> PermitCall | None:
    """Read what a transaction that did not revert asked Permit2 for; None if it did not call the proxy.

    What follows the call is not read: facilitators add their mark there.
    """
    data = bytes.fromhex(transaction.input[2:])
    first = _FIRST_WORD.get(data[:4])
    if transaction.to != UPTO_PROXY.lower() or first is None or len(data) < 4 + (first + _WORDS) * WORD:
        return None
    begin = 4 + first * WORD
    words = [data[begin + number * WORD : begin + (number + 1) * WORD] for number in range(_WORDS)]
    token, maximum, nonce, deadline, amount, payer, to, facilitator, valid_after = words
    return PermitCall(
        token=_read_address(token),
        maximum=_read_number(maximum),
        nonce=_read_number(nonce),
        deadline=_read_number(deadline),
        amount=_read_number(amount),
        payer=_read_address(payer),
        to=_read_address(to),
        facilitator=_read_address(facilitator),
        valid_after=_read_number(valid_after),
    )


def _read_address(word: bytes) -> str:
    return "0x" + word[-_ADDRESS_BYTES:].hex()


def _read_number(word: bytes) -> int:
    return int.from_bytes(word, "big")
