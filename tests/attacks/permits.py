"""Payments of the scheme `upto` as a payer could forge them: signed for other terms, or changed later."""

import base64
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_typed_data
from x402.mechanisms.evm import constants

from tests.support.headers import decode_header, encode_header

OTHER: Final = "0x" + "0e" * 20
_LIVE: Final = "eip155:8453"
_EURC: Final = "0x808456652fdb597867f38412077A9182bf77359F"
_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

Changes = Mapping[str, Any]
"""Other values by dotted paths. A function makes one of the account that signs."""


@dataclass(frozen=True)
class Forgery:
    """What is changed: before it is signed, after it was signed, in the terms that are echoed, in the domain.

    `rewrite` gets the whole x402 payload and the account, and is the last to change it.
    """

    name: str
    signed: Changes = field(default_factory=dict)
    shown: Changes = field(default_factory=dict)
    accepted: Changes = field(default_factory=dict)
    domain: Changes = field(default_factory=dict)
    rewrite: Callable[[dict[str, Any], Any], None] | None = None

    def make(self, private_key: str, instructions: str) -> str:
        """Make the `PAYMENT-SIGNATURE` header for these instructions."""
        account: Any = Account.from_key(private_key)
        required = decode_header(instructions)
        terms = required["accepts"][0]
        permit = build_permit(account.address, terms)
        _apply(permit, self.signed, account)
        payload = {"permit2Authorization": permit, "signature": _sign(account, permit, terms, self.domain)}
        _apply(permit, self.shown, account)
        _apply(terms, self.accepted, account)
        whole = {"x402Version": 2, "accepted": terms, "payload": payload, "resource": required["resource"]}
        if self.rewrite is not None:
            self.rewrite(whole, account)
        return encode_header(whole)


def build_permit(payer: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Build what the official client signs for these terms."""
    return {
        "from": payer,
        "permitted": {"token": terms["asset"], "amount": terms["amount"]},
        "spender": constants.X402_UPTO_PERMIT2_PROXY_ADDRESS,
        "nonce": str(secrets.randbits(256)),
        "deadline": str(int(time.time()) + terms["maxTimeoutSeconds"]),
        "witness": {
            "to": terms["payTo"],
            "facilitator": terms["extra"].get("facilitatorAddress", OTHER),
            "validAfter": "0",
        },
    }


def _sign(account: Any, permit: Mapping[str, Any], terms: Mapping[str, Any], domain: Changes) -> str:
    message = {name: permit[name] for name in ("permitted", "spender", "nonce", "deadline", "witness")}
    chain = int(terms["network"].partition(":")[2])
    data = {"name": "Permit2", "chainId": chain, "verifyingContract": constants.PERMIT2_ADDRESS, **domain}
    typed = encode_typed_data(data, constants.UPTO_PERMIT2_WITNESS_TYPES, _to_numbers(message))
    return "0x" + str(account.sign_message(typed).signature.hex())


def _to_numbers(value: Any) -> Any:
    """Return the message with numbers in place of decimal strings, as EIP-712 hashes them."""
    if isinstance(value, Mapping):
        return {name: _to_numbers(inner) for name, inner in value.items()}
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _apply(holder: dict[str, Any], changes: Changes, account: Any) -> None:
    for path, value in changes.items():
        inner, names = holder, path.split(".")
        for name in names[:-1]:
            inner = inner[name]
        made = value(account) if callable(value) else value
        if made is None:
            del inner[names[-1]]
        else:
            inner[names[-1]] = made


def _is_payer(account: Any) -> str:
    return str(account.address)


def _in(seconds: int) -> Callable[[Any], str]:
    return lambda _account: str(int(time.time()) + seconds)


def _flip(payload: dict[str, Any], _account: Any) -> None:
    """The other signature that recovers to the same key."""
    raw = bytes.fromhex(payload["payload"]["signature"][2:])
    high = _ORDER - int.from_bytes(raw[32:64], "big")
    payload["payload"]["signature"] = (
        "0x" + (raw[:32] + high.to_bytes(32, "big") + bytes([55 - raw[64]])).hex()
    )


def authorize_whole(payload: dict[str, Any], account: Any) -> None:
    """An authorization of the scheme `exact` (EIP-3009) in place of the permit, for the same amount."""
    terms = payload["accepted"]
    message = {
        "from": account.address,
        "to": terms["payTo"],
        "value": terms["amount"],
        "validAfter": "0",
        "validBefore": str(int(time.time()) + terms["maxTimeoutSeconds"]),
        "nonce": "0x" + secrets.token_hex(32),
    }
    domain = {
        "name": terms["extra"]["name"],
        "version": terms["extra"]["version"],
        "chainId": int(terms["network"].partition(":")[2]),
        "verifyingContract": terms["asset"],
    }
    types = {
        "TransferWithAuthorization": [
            {"name": name, "type": kind}
            for name, kind in (
                *(("from", "address"), ("to", "address"), ("value", "uint256")),
                *(("validAfter", "uint256"), ("validBefore", "uint256"), ("nonce", "bytes32")),
            )
        ]
    }
    signable = encode_typed_data(domain, types, {**_to_numbers(message), "nonce": message["nonce"]})
    signature = "0x" + account.sign_message(signable).signature.hex()
    payload["payload"] = {"authorization": message, "signature": signature}


def _authorize_whole_as_exact(payload: dict[str, Any], account: Any) -> None:
    authorize_whole(payload, account)
    payload["accepted"]["scheme"] = "exact"


def _say_both(payload: dict[str, Any], account: Any) -> None:
    permit = payload["payload"]
    authorize_whole(payload, account)
    payload["payload"] = {**permit, **payload["payload"]}


def _say_both_with_the_permit_signed(payload: dict[str, Any], account: Any) -> None:
    permit = payload["payload"]
    authorize_whole(payload, account)
    payload["payload"] = {**payload["payload"], **permit}


HONEST: Final = Forgery("honest")
FORGERIES: Final = (
    # The payer signs for other terms than it was asked.
    Forgery("another recipient", {"witness.to": OTHER}),
    Forgery("itself as recipient", {"witness.to": _is_payer}),
    Forgery("another facilitator", {"witness.facilitator": OTHER}),
    Forgery("itself as facilitator", {"witness.facilitator": _is_payer}),
    Forgery("itself as spender", {"spender": _is_payer}),
    Forgery("the spender of exact", {"spender": constants.X402_EXACT_PERMIT2_PROXY_ADDRESS}),
    Forgery("a lower ceiling", {"permitted.amount": "499999"}),
    Forgery("a lower ceiling, accepted", {"permitted.amount": "1"}, accepted={"amount": "1"}),
    Forgery("a higher ceiling", {"permitted.amount": "500001"}),
    Forgery("a ceiling of nothing", {"permitted.amount": "0"}, accepted={"amount": "0"}),
    Forgery("over already", {"deadline": _in(-1)}),
    Forgery("over before it can settle", {"deadline": _in(2)}),
    Forgery("valid for years", {"deadline": "4000000000"}),
    Forgery("not valid yet", {"witness.validAfter": _in(3600)}),
    Forgery("another token", {"permitted.token": _EURC}),
    Forgery("another token, accepted", {"permitted.token": _EURC}, accepted={"asset": _EURC}),
    Forgery("another chain", domain={"chainId": 8453}),
    Forgery("another chain, accepted", accepted={"network": _LIVE}, domain={"chainId": 8453}),
    Forgery("another contract", domain={"verifyingContract": constants.X402_UPTO_PERMIT2_PROXY_ADDRESS}),
    Forgery("another domain", domain={"name": "USDC"}),
    # Something was changed after it was signed.
    Forgery("recipient changed", shown={"witness.to": OTHER}),
    Forgery("facilitator changed", shown={"witness.facilitator": OTHER}),
    Forgery("payer changed", shown={"from": OTHER}),
    Forgery("nonce changed", shown={"nonce": "7"}),
    Forgery("nonce in hex", shown={"nonce": "0x07"}),
    Forgery("deadline changed", {"deadline": _in(-60)}, shown={"deadline": _in(50)}),
    Forgery("start changed", shown={"witness.validAfter": "1"}),
    Forgery("ceiling changed", {"permitted.amount": "1"}, shown={"permitted.amount": "500000"}),
    Forgery("ceiling beyond 256 bits", shown={"permitted.amount": str(2**256 + 500_000)}),
    Forgery("ceiling below nothing", shown={"permitted.amount": "-500000"}),
    Forgery("no witness", shown={"witness": None}),
    Forgery("no facilitator", shown={"witness.facilitator": None}),
    Forgery("the other signature", rewrite=_flip),
    # Other terms are echoed.
    Forgery("another price accepted", accepted={"amount": "1"}),
    Forgery("another recipient accepted", accepted={"payTo": OTHER}),
    Forgery("no challenge", accepted={"extra.challenge": None}),
    # The other scheme.
    Forgery("accepted as exact", accepted={"scheme": "exact"}),
    Forgery("an authorization of exact", rewrite=authorize_whole),
    Forgery("an authorization of exact, accepted as exact", rewrite=_authorize_whole_as_exact),
    Forgery("both, signed as exact", rewrite=_say_both),
    Forgery("both, signed as upto", rewrite=_say_both_with_the_permit_signed),
)


def rewrite_header(proof: str) -> list[str]:
    """Write the same payment, with the same authorization and signature, in other bytes."""
    payload = decode_header(proof)
    signature = payload["payload"]["signature"]
    upper = json.dumps(payload).replace(signature, "0x" + signature[2:].upper())
    texts = (json.dumps(payload, indent=1), json.dumps(dict(reversed(payload.items()))), upper)
    return [base64.b64encode(text.encode()).decode() for text in texts]
