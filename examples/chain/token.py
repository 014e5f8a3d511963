"""The token of the local chain (token.vy), compiled, and the calls to it. All arguments are 32-byte words."""

from pathlib import Path
from typing import Final

from eth_utils.crypto import keccak

from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

SOURCE: Final = Path(__file__).with_name("token.vy")
COMPILED: Final = Path(__file__).with_name("token.hex")
"""The creation code as vyper 0.4.3 makes it: `vyper examples/chain/token.vy > examples/chain/token.hex`."""

Word = int | str | bytes
"""An amount, an address or another number in hex, or 32 bytes."""
_TRANSFER = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"


def encode_call(signature: str, *arguments: Word) -> str:
    """Encode a call of the function `signature`, such as `balanceOf(address)`."""
    return "0x" + (keccak(text=signature)[:4] + b"".join(map(_encode_word, arguments))).hex()


def encode_creation(token: Token) -> str:
    """Encode what creates this token: its code, and the name, version and symbol given to it."""
    texts = (token.name, token.version, token.symbol)
    heads = b"".join(_encode_word(32 * len(texts) + 64 * index) for index in range(len(texts)))
    tails = b"".join(_encode_word(len(text)) + text.encode().ljust(32, b"\0") for text in texts)
    return COMPILED.read_text("ascii").strip() + (heads + tails).hex()


def encode_transfer(payment: SignedPayment) -> str:
    """Encode the transfer of a signed payment, with its signature as v, r, s."""
    signature = bytes.fromhex(payment.signature[2:])
    parts = (signature[64], signature[:32], signature[32:64])
    return encode_call(
        _TRANSFER,
        *(payment.payer, payment.to, payment.value, payment.valid_after, payment.valid_before),
        *(payment.nonce, *parts),
    )


def _encode_word(word: Word) -> bytes:
    if isinstance(word, bytes):
        return word.rjust(32, b"\0")
    return (int(word, 16) if isinstance(word, str) else word).to_bytes(32, "big")
