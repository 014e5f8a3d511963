"""Encode calls of contracts whose arguments are all 32-byte words (Ethereum's contract ABI)."""

from functools import cache
from typing import Final

from eth_utils.crypto import keccak

WORD: Final = 32
Word = int | str | bytes
"""A number, an address or a number in hex, or bytes, which are padded on the left to 32 bytes."""


def encode_call(signature: str, *arguments: Word) -> str:
    """Encode the call of a function, such as `balanceOf(address)`, as hex."""
    return "0x" + (_hash_text(signature)[:4] + b"".join(map(encode_word, arguments))).hex()


def encode_word(word: Word) -> bytes:
    """Encode one argument. Raises `OverflowError` for a number that 32 bytes cannot hold."""
    if isinstance(word, bytes):
        return word.rjust(WORD, b"\0")
    return (int(word, 16) if isinstance(word, str) else word).to_bytes(WORD, "big")


def encode_topic(word: Word) -> str:
    """Encode an argument as nodes show it in the topics of a log."""
    return "0x" + encode_word(word).hex()


def hash_event(signature: str) -> str:
    """Return the first topic of an event, such as `Transfer(address,address,uint256)`."""
    return "0x" + _hash_text(signature).hex()


@cache
def _hash_text(text: str) -> bytes:
    return keccak(text=text)
