"""The `payment-identifier` extension of x402 version 2: a payer names a purchase. Pure.

A seller offers it in the instructions. A payer's client echoes it in the payment with an `id`, and keeps the
`id` when it signs another payment for the same purchase.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, cast

from faregate.x402.headers import find_extension

EXTENSION: Final = "payment-identifier"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{16,128}", re.ASCII)
_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "required": {"type": "boolean"},
        "id": {"type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[a-zA-Z0-9_-]+$"},
    },
    "required": ["required"],
}


class IdentifierUse(Enum):
    """What a seller makes of identifiers. The values are those of the setting, but for the first."""

    IGNORED = ""
    OPTIONAL = "optional"
    REQUIRED = "required"


class InvalidIdentifier(Exception):
    """The payment has the extension, and its `id` cannot be read."""


def declare_identifier(use: IdentifierUse) -> Mapping[str, Any]:
    """Build the extensions of instructions that offer identifiers; empty where they are ignored."""
    if use is IdentifierUse.IGNORED:
        return {}
    return {EXTENSION: {"info": {"required": use is IdentifierUse.REQUIRED}, "schema": _SCHEMA}}


def add_identifier(extensions: Mapping[str, Any], identifier: str) -> dict[str, Any]:
    """Add the `id` to the extensions of instructions, for a payer to echo, if they offer it."""
    offered: object = extensions.get(EXTENSION)
    info: object = cast("dict[str, Any]", offered).get("info") if isinstance(offered, dict) else None
    if not isinstance(info, dict):
        return {**extensions}
    named = {**cast("dict[str, Any]", info), "id": identifier}
    return {**extensions, EXTENSION: {**cast("dict[str, Any]", offered), "info": named}}


def find_identifier(proof: str) -> str:
    """Return the `id` in a `PAYMENT-SIGNATURE` header, or "". Raises `InvalidIdentifier`.

    It is what the header says: the signature of the payment does not cover it.
    """
    extension = find_extension(proof, EXTENSION)
    if not extension:
        return ""
    info = cast("dict[str, Any]", extension).get("info") if isinstance(extension, dict) else None
    if not isinstance(info, dict):
        raise InvalidIdentifier
    identifier = cast("dict[str, Any]", info).get("id")
    if identifier is None:
        return ""
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise InvalidIdentifier
    return identifier
