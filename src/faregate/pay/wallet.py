"""A wallet with limits, over the official x402 client.

Rules
1. A test payer signs for test networks only; the user's own key for live ones only with `--live`.
2. Only USDC and EURC, known by their published addresses, are paid.
3. Never more than the limit, in units of the asset.
The checks here explain a refusal in words. The official client's own spend controls enforce the same limits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from eth_account import Account
from x402 import x402ClientSync
from x402.http.utils import encode_payment_signature_header
from x402.mechanisms.evm.exact import ExactEvmScheme  # pyright: ignore[reportMissingTypeStubs]
from x402.mechanisms.evm.upto import UptoEvmScheme  # pyright: ignore[reportMissingTypeStubs]
from x402.schemas import PaymentRequired, PaymentRequirements

from faregate.errors import CommandError, ConfigurationError
from faregate.pay.output import PaymentSigned
from faregate.pay.requirements import NotSigned, find_token, format_amount, is_atomic_amount
from faregate.rules.published_payers import TEST_PAYERS
from faregate.x402.tokens import CHAINS, DECIMALS, TOKENS

KEY_VARIABLE = "FAREGATE_PAYER_KEY"
DEFAULT_PAYER = "good"
_SCHEMES = ("exact", "upto")
_PRIVATE_KEY = re.compile(r"(?:0x)?[0-9a-fA-F]{64}", re.ASCII)
_TEST = f"eip155:{CHAINS['test']}"
_LIVE = f"eip155:{CHAINS['live']}"


@dataclass(frozen=True, slots=True)
class PayerKey:
    """A private key. `own` is False for a test payer, whose key is published."""

    name: str
    private_key: str = field(repr=False)
    own: bool


@dataclass(frozen=True, slots=True)
class PaymentProof:
    """A signed payment: the value of the `PAYMENT-SIGNATURE` header, and its description."""

    proof: str = field(repr=False)
    description: PaymentSigned


def load_payer_key(name: str | None, key_file: str | None, environ: Mapping[str, str]) -> PayerKey:
    """Return the key to pay with: the named test payer, else the file, else the environment, else `good`.

    Raises `CommandError` for an unknown test payer, and `ConfigurationError` for an invalid key.
    """
    if name is not None:
        return get_test_payer(name)
    if key_file is not None:
        return PayerKey("your key", _parse_key(_read_key_file(key_file), key_file), own=True)
    # An empty variable counts as unset.
    if environ.get(KEY_VARIABLE):
        return PayerKey("your key", _parse_key(environ[KEY_VARIABLE], KEY_VARIABLE), own=True)
    return get_test_payer(DEFAULT_PAYER)


def get_test_payer(name: str) -> PayerKey:
    """Return the test payer of this name, or raise `CommandError`."""
    if name not in TEST_PAYERS:
        raise CommandError(f"There is no test payer {name!r}. Choose one of: {', '.join(TEST_PAYERS)}.")
    return PayerKey(name, TEST_PAYERS[name].private_key, own=False)


class PayerWallet:
    """Signs payments up to `limit`, in units of the asset. `live` lets the user's own key pay on Base."""

    def __init__(self, key: PayerKey, limit: Decimal, *, live: bool) -> None:
        if live and not key.own:
            raise CommandError(f"--live needs a key of your own: use --key-file FILE, or set {KEY_VARIABLE}.")
        self._key = key
        self._networks = (_TEST, _LIVE) if live else (_TEST,)
        self._max_atomic = int(limit * 10**DECIMALS)
        account = Account.from_key(key.private_key)
        self.address = str(account.address)
        self._x402 = _build_client(account, self._networks, self._max_atomic)

    def select_requirements(self, required: PaymentRequired) -> PaymentRequirements:
        """Return the first entry of `accepts` that may be signed. Raises `NotSigned` with the reasons."""
        reasons: list[str] = []
        for requirement in required.accepts:
            reason = self._find_obstacle(requirement)
            if reason is None:
                return requirement
            reasons.append(reason)
        raise NotSigned("; ".join(dict.fromkeys(reasons)) or "the seller offers no way to pay")

    def sign(self, required: PaymentRequired) -> PaymentProof:
        """Sign a payment for the selected requirements. Raises `NotSigned`."""
        selected = self.select_requirements(required)
        try:
            # Only the selected entry: given all of them, the client would make its own choice.
            payload = self._x402.create_payment_payload(required.model_copy(update={"accepts": [selected]}))
            proof = encode_payment_signature_header(payload)
        except Exception as error:  # the client documents no exceptions; whichever it was, nothing was signed
            raise NotSigned(f"the x402 client refused: {error}") from None
        amount, valid_until = format_amount(selected), get_valid_until(payload.payload)
        description = PaymentSigned(self._key.name, self.address, amount, selected.network, valid_until)
        return PaymentProof(proof, description)

    def _find_obstacle(self, requirement: PaymentRequirements) -> str | None:
        """Return why this entry may not be signed, or None if it may."""
        if requirement.scheme not in _SCHEMES:
            return f"the scheme {requirement.scheme} is not supported"
        if requirement.scheme == "upto" and not requirement.extra.get("facilitatorAddress"):
            return "the scheme upto needs a facilitator, and the seller names none"
        if requirement.network not in self._networks:
            return self._explain_network(requirement.network)
        if find_token(requirement) is None:
            return f"{requirement.asset} on {requirement.network} is neither USDC nor EURC"
        if not is_atomic_amount(requirement.amount):
            return "the amount is not a whole number of atomic units"
        if int(requirement.amount) > self._max_atomic:
            return f"{format_amount(requirement)} is above the limit; raise it with --max"
        return None

    def _explain_network(self, network: str) -> str:
        if network != _LIVE:
            return f"the network {network} is not supported"
        if not self._key.own:
            return f"the test payer {self._key.name} signs only for {_TEST}, and {network} is real money"
        return f"{network} is real money; allow it with --live"


def _build_client(account: Any, networks: Sequence[str], max_atomic: int) -> x402ClientSync:
    client = x402ClientSync()
    for network in networks:
        client.register(network, ExactEvmScheme(account))
        client.register(network, UptoEvmScheme(account))
    # A second guard beside `_find_obstacle`: a mistake there cannot sign more than this.
    allowed: Any = [
        {"network": token.network, "asset": token.address, "max_amount_per_payment": str(max_atomic)}
        for token in TOKENS.values()
        if token.network in networks
    ]
    return client.set_spend_controls({"allowed_assets": allowed})


def get_valid_until(payload: dict[str, Any]) -> int | None:
    exact = payload.get("authorization", {}).get("validBefore")
    until = payload.get("permit2Authorization", {}).get("deadline") if exact is None else exact
    return int(until) if isinstance(until, str) and until.isdigit() else None


def _read_key_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise ConfigurationError(f"cannot read the key file: {error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(_describe_invalid_key(path)) from None


def _parse_key(text: str, source: str) -> str:
    """Return the key with its 0x prefix. Raises `ConfigurationError`, whose text never contains the key."""
    key = text.strip()
    # Zero has the right form, but is not a key of the curve.
    if not _PRIVATE_KEY.fullmatch(key) or int(key, 16) == 0:
        raise ConfigurationError(_describe_invalid_key(source))
    return key if key.startswith("0x") else f"0x{key}"


def _describe_invalid_key(source: str) -> str:
    return f"{source} does not contain a private key: 64 hex digits, with or without 0x"
