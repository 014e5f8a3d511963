"""Make a stranger's text fit for a payer or a log. Pure."""

import re
from typing import Final

MAX_CHARACTERS: Final = 120
_MAX_READ: Final = 2_000
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9 .,:;()'/+=_-]+", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z0-9]{25}", re.ASCII)
_LONGEST_WORD: Final = 80
"""Reasons in x402 are words like `invalid_exact_evm_payload_authorization_valid_before`."""


def clean_text(text: object) -> str:
    """Return one short line of plain ASCII, in which no word could be a secret; empty if it is not text."""
    if not isinstance(text, str):
        return ""
    words = _UNUSUAL.sub(" ", text[:_MAX_READ]).split()
    line = " ".join("..." if _could_be_secret(word) else word for word in words)
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 3] + "..."


def _could_be_secret(word: str) -> bool:
    """Whether it could be a key, a signature or a proof: people do not write such words."""
    return len(word) > _LONGEST_WORD or _KEY.search(word) is not None
