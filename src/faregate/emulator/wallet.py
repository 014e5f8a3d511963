"""A payer for tests: answers `PAYMENT-REQUIRED` with a real x402 proof."""

import base64
import json
import secrets
from functools import cached_property
from typing import Any, Self

from faregate.errors import ConfigurationError
from faregate.rules.clock import Clock
from faregate.rules.published_payers import TEST_PAYERS
from faregate.system import system_clock
from faregate.x402.eip712 import ORDER, build_typed_data, derive_address, sign
from faregate.x402.models import X402_VERSION, SignedPayment
from faregate.x402.permit2 import UPTO_PROXY
from faregate.x402.tokens import TOKENS, Token


class Wallet:
    """A key pair that signs one payment per call. `clock` must be the emulator's."""

    def __init__(self, private_key: str | None = None, *, clock: Clock = system_clock) -> None:
        number = secrets.randbelow(ORDER - 1) + 1 if private_key is None else int(private_key, 16)
        if not 0 < number < ORDER:
            raise ConfigurationError("a private key is a number above 0 and below the order of secp256k1")
        self._key = number.to_bytes(32, "big")
        self._clock = clock

    @classmethod
    def test(cls, name: str, *, clock: Clock = system_clock) -> Self:
        """Return the wallet of a test payer, such as `slow`; `ConfigurationError` if unknown."""
        payer = TEST_PAYERS.get(name)
        if payer is None:
            raise ConfigurationError(f"there is no test payer {name!r}; there are {', '.join(TEST_PAYERS)}")
        return cls(payer.private_key, clock=clock)

    @cached_property
    def address(self) -> str:
        return derive_address(self._key)

    def pay(self, instructions: str, *, nonce: str | None = None) -> str:
        """Build a `PAYMENT-SIGNATURE` for the first entry of the instructions, valid as long as allowed."""
        required = json.loads(base64.b64decode(instructions))
        terms = required["accepts"][0]
        authorize = self._authorize_maximum if terms["scheme"] == "upto" else self._authorize
        proof = {
            "x402Version": X402_VERSION,
            "payload": authorize(terms, nonce or "0x" + secrets.token_hex(32)),
            "accepted": terms,
            "resource": required["resource"],
        }
        return base64.b64encode(json.dumps(proof).encode()).decode("ascii")

    def _authorize(self, terms: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Authorize the whole price (scheme `exact`, EIP-3009)."""
        authorization = {
            "from": self.address,
            "to": terms["payTo"],
            "value": terms["amount"],
            "validAfter": "0",
            "validBefore": self._find_end(terms),
            "nonce": nonce,
        }
        return {"authorization": authorization, "signature": self.sign(authorization, _find_token(terms))}

    def _authorize_maximum(self, terms: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Authorize a maximum (scheme `upto`, Permit2)."""
        facilitator: str = terms["extra"]["facilitatorAddress"]
        end, number = self._find_end(terms), str(int(nonce, 16))
        permit = {
            "from": self.address,
            "permitted": {"token": terms["asset"], "amount": terms["amount"]},
            "spender": UPTO_PROXY,
            "nonce": number,
            "deadline": end,
            "witness": {"to": terms["payTo"], "facilitator": facilitator, "validAfter": "0"},
        }
        payment = SignedPayment(
            payer=self.address,
            to=terms["payTo"],
            value=int(terms["amount"]),
            valid_after=0,
            valid_before=int(end) + 1,
            nonce=number,
            signature="",
            header="",
            facilitator=facilitator,
        )
        signature = sign(self._key, build_typed_data(payment, _find_token(terms)))
        return {"permit2Authorization": permit, "signature": signature}

    def _find_end(self, terms: dict[str, Any]) -> str:
        return str(int(self._clock().timestamp()) + terms["maxTimeoutSeconds"])

    def sign(self, authorization: dict[str, str], token: Token) -> str:
        """Sign this authorization (EIP-712), as hex."""
        payment = SignedPayment(
            payer=authorization["from"],
            to=authorization["to"],
            value=int(authorization["value"]),
            valid_after=int(authorization["validAfter"]),
            valid_before=int(authorization["validBefore"]),
            nonce=authorization["nonce"],
            signature="",
            header="",
        )
        return sign(self._key, build_typed_data(payment, token))


def _find_token(terms: dict[str, Any]) -> Token:
    asset = str(terms["asset"]).lower()
    return next(token for token in TOKENS.values() if token.address.lower() == asset)
