"""The x402 v2 headers: parse `PAYMENT-SIGNATURE`, build `PAYMENT-REQUIRED` and `PAYMENT-RESPONSE`.

Each is standard padded base64 of JSON, for the schemes `exact` and `upto` on EVM chains. Every entry of
`accepts` carries a fresh unpredictable value, `extra.challenge`, which clients echo in `accepted`. An
authorization and its signature are public once settled: they are in the chain's calldata. Without the
challenge no stranger can rebuild from them the `PAYMENT-SIGNATURE` header that was sent. The service does
not store it.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast

from faregate.x402.instructions import parse_json
from faregate.x402.models import X402_VERSION, PaidResource, SignedPayment, Terms
from faregate.x402.permit2 import UPTO_PROXY

MAX_PROOF: Final = 16 * 1024
_MAX_NAMED: Final = 100
"""Characters of an address or hash that a header names, at most."""
_CACHED_PAYMENTS: Final = 256
"""Payments that are kept as they were read: complete sends the proof of access once more."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_NONCE: Final = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_SIGNATURE: Final = re.compile(r"0x(?:[0-9a-fA-F]{2}){1,4096}", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,77}", re.ASCII)


class InvalidPayload(Exception):
    """The header cannot be read; the text tells the payer why."""


# Safe to cache: a payment is frozen, and depends on the header alone.
@lru_cache(maxsize=_CACHED_PAYMENTS)
def parse_payment(proof: str) -> SignedPayment:
    """Parse this header value; `InvalidPayload` if it cannot be read."""
    payload = _decode_payload(proof)
    version = payload.get("x402Version")
    # `True` is an int and equals 1; `isinstance` would let it pass.
    if type(version) is not int or version != X402_VERSION:
        raise InvalidPayload(f"x402Version must be {X402_VERSION}")
    accepted = _get_object(payload, "accepted")
    inner = _get_object(payload, "payload")
    if "permit2Authorization" in inner and "authorization" not in inner:
        return _parse_permit(accepted, inner, proof)
    authorization = _get_object(inner, "authorization")
    return SignedPayment(
        payer=_get_text(authorization, "from", _ADDRESS, "an address"),
        to=_get_text(authorization, "to", _ADDRESS, "an address"),
        value=_get_number(authorization, "value"),
        valid_after=_get_number(authorization, "validAfter"),
        valid_before=_get_number(authorization, "validBefore"),
        nonce=_get_text(authorization, "nonce", _NONCE, "32 bytes of hex"),
        signature=_get_text(inner, "signature", _SIGNATURE, "hex"),
        header=proof,
    )


def _parse_permit(accepted: Mapping[str, Any], inner: Mapping[str, Any], proof: str) -> SignedPayment:
    """Parse the payload of the scheme `upto`. What it says twice must agree: the signature is over one."""
    permit = _get_object(inner, "permit2Authorization")
    permitted, witness = _get_object(permit, "permitted"), _get_object(permit, "witness")
    if _get_text(permit, "spender", _ADDRESS, "an address") != UPTO_PROXY.lower():
        raise InvalidPayload(f"spender must be {UPTO_PROXY}, the contract of the scheme upto")
    if _get_text(permitted, "token", _ADDRESS, "an address") != str(accepted.get("asset")).lower():
        raise InvalidPayload("permitted.token must be accepted.asset")
    return SignedPayment(
        payer=_get_text(permit, "from", _ADDRESS, "an address"),
        to=_get_text(witness, "to", _ADDRESS, "an address"),
        value=_get_number(permitted, "amount"),
        valid_after=_get_number(witness, "validAfter"),
        valid_before=_get_number(permit, "deadline") + 1,
        nonce=str(_get_number(permit, "nonce")),
        signature=_get_text(inner, "signature", _SIGNATURE, "hex"),
        header=proof,
        facilitator=_get_text(witness, "facilitator", _ADDRESS, "an address"),
    )


def _decode_payload(proof: str) -> Mapping[str, Any]:
    if len(proof) > MAX_PROOF:
        raise InvalidPayload(f"the payment proof is longer than {MAX_PROOF} characters")
    # b64decode skips characters outside the alphabet, so one proof could be written in many ways.
    if not _BASE64.fullmatch(proof) or len(proof) % 4:
        raise InvalidPayload("the payment proof is not standard, padded base64")
    try:
        decoded = parse_json(base64.b64decode(proof))
    except (ValueError, RecursionError):
        raise InvalidPayload("the payment proof is not base64 of JSON") from None
    if not isinstance(decoded, dict):
        raise InvalidPayload("the payment proof is not a JSON object")
    return cast("dict[str, Any]", decoded)


def _get_object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = holder.get(name)
    if not isinstance(member, dict):
        raise InvalidPayload(f"{name} is missing or not an object")
    return cast("dict[str, Any]", member)


def _get_text(holder: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    text = holder.get(name)
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise InvalidPayload(f"{name} is missing or not {what}")
    return text.lower()


def _get_number(holder: Mapping[str, Any], name: str) -> int:
    number = int(_get_text(holder, name, _NUMBER, "a decimal integer string"))
    if number >= 1 << 256:
        raise InvalidPayload(f"{name} does not fit 256 bits")
    return number


CHALLENGE: Final = "challenge"
PREDICTABLE: Final = "0" * 64
"""The challenge of instructions that are the same for everybody, as a fault makes them."""
_CACHED_INSTRUCTIONS: Final = 256
"""Instructions that are kept: those of one resource, price and reason differ in the challenge only."""


def build_requirements(terms: Terms, **more: str) -> dict[str, Any]:
    """Build the x402 `PaymentRequirements` of these terms; `more` goes into `extra`."""
    upto = (
        {"assetTransferMethod": "permit2", "facilitatorAddress": terms.facilitators[0]}
        if terms.facilitators
        else {}
    )
    return {
        "scheme": terms.scheme,
        "network": terms.token.network,
        "amount": str(terms.amount),
        "asset": terms.token.address,
        "payTo": terms.pay_to,
        "maxTimeoutSeconds": terms.max_timeout_seconds,
        "extra": {"name": terms.token.name, "version": terms.token.version, **upto, **more},
    }


def build_accepts(terms: Terms, challenge: str) -> dict[str, Any]:
    """Build one entry of `accepts`."""
    return build_requirements(terms, **{CHALLENGE: challenge})


def build_payment_required(terms: Terms, resource: PaidResource, reason: str, challenge: str) -> str:
    """Build the header that says how to pay, and why an earlier try was refused."""
    text = _build_required_json(terms, resource.url, resource.description, resource.mime_type, reason)
    # The challenge is the last thing in it, so nothing that a seller named can stand in its place.
    before, _, after = text.rpartition(PREDICTABLE)
    return _encode_base64(before + challenge + after)


@lru_cache(maxsize=_CACHED_INSTRUCTIONS)
def _build_required_json(terms: Terms, url: str, description: str, mime_type: str, reason: str) -> str:
    return _dump_json(
        {
            "x402Version": X402_VERSION,
            "error": reason,
            "resource": {"url": url, "description": description, "mimeType": mime_type},
            "accepts": [build_accepts(terms, PREDICTABLE)],
        }
    )


def remove_challenge(instructions: str) -> str:
    """Return the instructions with a constant challenge."""
    required = json.loads(base64.b64decode(instructions))
    for entry in required["accepts"]:
        entry["extra"][CHALLENGE] = PREDICTABLE
    return _encode_base64(_dump_json(required))


def build_payment_response(terms: Terms, payer: str, transaction_hash: str, amount: int) -> str:
    """Build the header that proves the payment of `amount` atomic units (x402 `SettlementResponse`)."""
    settled = _dump_json(
        {
            "success": True,
            "transaction": transaction_hash,
            "network": terms.token.network,
            "payer": payer,
            "amount": str(amount),
        }
    )
    return _encode_base64(settled)


def find_payer(proof: str) -> str:
    """Return the address that a `PAYMENT-SIGNATURE` header names as the payer, or "". Never raises.

    In lower case.
    """
    return _find_text(_find_signed(proof), "from")


def find_amount(proof: str) -> int | None:
    """Return how many atomic units a `PAYMENT-SIGNATURE` header authorizes, at most. Never raises.

    None if it cannot be read.
    """
    payload = _find_object(_decode_leniently(proof), "payload")
    permitted = _find_object(_find_object(payload, "permit2Authorization"), "permitted")
    for signed, name in ((_find_object(payload, "authorization"), "value"), (permitted, "amount")):
        if name in signed:
            with suppress(InvalidPayload):
                return _get_number(signed, name)
    return None


def find_authorization(proof: str) -> str:
    """Return what identifies the authorization in a `PAYMENT-SIGNATURE` header, or "". Never raises.

    Payer and nonce, in lower case: they stay the same in whatever bytes the header is written.
    """
    authorization = _find_signed(proof)
    payer, nonce = _find_text(authorization, "from"), _find_text(authorization, "nonce")
    return f"{payer}/{nonce}" if payer and nonce else ""


def find_extension(proof: str, name: str) -> object:
    """Return what a `PAYMENT-SIGNATURE` header has of this extension, or None. Never raises."""
    return _find_object(_decode_leniently(proof), "extensions").get(name)


def find_validity(proof: str) -> int:
    """Return for how many seconds the authorization in this header is valid, or 0. Never raises."""
    signed = _find_signed(proof)
    if not signed:
        return 0
    try:
        if "deadline" in signed:
            begin, end = (
                _get_number(_find_object(signed, "witness"), "validAfter"),
                _get_number(signed, "deadline"),
            )
        else:
            begin, end = _get_number(signed, "validAfter"), _get_number(signed, "validBefore")
        return max(0, end - begin)
    except InvalidPayload:
        return 0


# A journal asks for the key of a proof, for its payer and, when it is settled, for its validity.
@lru_cache(maxsize=_CACHED_PAYMENTS)
def _find_signed(proof: str) -> Mapping[str, Any]:
    """Return what the payer signed, that of EIP-3009 or that of Permit2; empty if it cannot be read."""
    payload = _find_object(_decode_leniently(proof), "payload")
    return _find_object(payload, "authorization") or _find_object(payload, "permit2Authorization")


def find_settlement(payment_response: str) -> tuple[str, str]:
    """Return the payer and the transaction hash that a `PAYMENT-RESPONSE` header names, or "" for each."""
    settled = _decode_leniently(payment_response)
    return _find_text(settled, "payer"), _find_text(settled, "transaction")


def find_settled_amount(payment_response: str) -> int | None:
    """Return the atomic units that a `PAYMENT-RESPONSE` header says were taken; None if it says none."""
    amount = _find_text(_decode_leniently(payment_response), "amount")
    return int(amount) if _NUMBER.fullmatch(amount) else None


def _decode_leniently(header: str) -> Mapping[str, Any]:
    # Nothing is verified here: a header that cannot be read leaves the payer unknown, and stops no sale.
    # A service may accept base64 without padding, or with the alphabet of URLs.
    bare = header.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = parse_json(binascii.a2b_base64(bare + "=" * (-len(bare) % 4), strict_mode=True))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}


def _find_object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = holder.get(name)
    return cast("dict[str, Any]", member) if isinstance(member, dict) else {}


def _find_text(holder: Mapping[str, Any], name: str) -> str:
    text = holder.get(name)
    return text.lower() if isinstance(text, str) and len(text) <= _MAX_NAMED else ""


def _dump_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
