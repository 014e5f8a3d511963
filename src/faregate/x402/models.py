"""A price and a payment in terms of x402: scheme `exact` by EIP-3009, or scheme `upto` by Permit2."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

from faregate.x402.tokens import Token

Scheme = Literal["exact", "upto"]
X402_VERSION: Final = 2
_ECHOED: Final = ("resource", "extensions")
_DECODED: Final = 256
"""Headers that are kept as they were decoded."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a payment: one entry of `accepts`. `amount` is in atomic units.

    With `facilitators` the scheme is `upto`: `amount` is the most that is charged, and these addresses may
    settle it, of which the first is offered.
    """

    token: Token
    amount: int
    pay_to: str
    max_timeout_seconds: int
    facilitators: tuple[str, ...] = ()

    @property
    def scheme(self) -> Scheme:
        return "upto" if self.facilitators else "exact"


class PaidResource(Protocol):
    """The resource that is paid for, as the payer sees it."""

    @property
    def url(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def mime_type(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SignedPayment:
    """A payer's authorization with its signature; hex is in lower case.

    With a `facilitator` it is one of Permit2 for the scheme `upto`: `value` is the most that may be taken,
    and that address alone may settle it. Without one it is one of EIP-3009 for the scheme `exact`.
    It is valid from `valid_after` to before `valid_before`, in Unix seconds. `nonce` is as its contract
    writes it, 32 bytes of hex in EIP-3009, a decimal number in Permit2, so that neither is taken for the
    other.

    `header` is the `PAYMENT-SIGNATURE` value it was parsed from. One authorization can be written in many
    headers, and only its payer knows the one that was sent, so two payments are equal only if their headers
    are.
    """

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: str
    signature: str = field(repr=False)
    header: str = field(repr=False)
    kept: str = field(default="", repr=False, compare=False)
    """`echoed` as JSON, where the header is not at hand any more."""
    resource_url: str | None = field(default=None, repr=False, compare=False)
    """The URL that the seller asked access for; None where it is not at hand."""
    facilitator: str | None = None

    @property
    def scheme(self) -> Scheme:
        return "exact" if self.facilitator is None else "upto"

    @property
    def deadline(self) -> int:
        """The last second in which Permit2 takes the authorization."""
        return self.valid_before - 1

    def get_key(self, token: Token) -> str:
        """Return what makes this authorization unique: a token, and Permit2, take a nonce of a payer once."""
        return build_authorization_key(token, self.payer, self.nonce)

    @property
    def proof(self) -> Mapping[str, Any]:
        """The whole x402 `PaymentPayload`."""
        return _decode(self.header)

    @property
    def echoed(self) -> Mapping[str, Any]:
        """What the payer echoes of the instructions beside the terms: catalogues list resources by it.

        Nothing of a payer who names another URL than the seller: a catalogue would list the seller there.
        """
        try:
            payload: Mapping[str, Any] = self.proof if self.header else json.loads(self.kept or "{}")
        except ValueError:  # a header that nothing has parsed yet
            return {}
        echoed = {name: payload[name] for name in _ECHOED if isinstance(payload.get(name), dict)}
        url = echoed.get("resource", {}).get("url")
        return echoed if self.resource_url in (None, url) else {}

    @property
    def accepted(self) -> Mapping[str, Any]:
        """The terms that the payer says it accepted."""
        accepted: Mapping[str, Any] = self.proof["accepted"]
        return accepted


# Each sale looks at it three times.
@lru_cache(maxsize=_DECODED)
def _decode(header: str) -> Mapping[str, Any]:
    payload: Mapping[str, Any] = json.loads(base64.b64decode(header))
    return payload


def build_authorization_key(token: Token, payer: str, nonce: str) -> str:
    return f"{token.address}/{payer}/{nonce}"


def split_authorization_key(key: str) -> tuple[str, str, str]:
    """Return the address of the token, the payer and the nonce."""
    token_address, payer, nonce = key.split("/")
    return token_address, payer, nonce
