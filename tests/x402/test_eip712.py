"""Who signed: the same answer as eth-account's, for good signatures and for bad ones."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from random import Random

import pytest
from eth_account import Account
from eth_keys.backends.coincurve import CoinCurveECCBackend
from eth_keys.backends.native.main import NativeECCBackend
from packaging.requirements import Requirement

from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.x402 import eip712
from faregate.x402.eip712 import Curve, build_typed_data, recover_signer
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import TOKENS, Token

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
FIELD = 2**256 - 2**32 - 977
EDGES = (0, 1, ORDER // 2, ORDER // 2 + 1, ORDER - 1, ORDER, FIELD - 1, FIELD, 2**256 - 1)


@pytest.fixture(params=[CoinCurveECCBackend, NativeECCBackend])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Curve:
    """Each way to sign in turn."""
    chosen = Curve(request.param())
    monkeypatch.setattr(eip712, "CURVE", chosen)
    return chosen


def payment(chance: Random, signature: str = "") -> SignedPayment:
    return SignedPayment(
        payer=f"0x{chance.getrandbits(160):040x}",
        to=f"0x{chance.getrandbits(160):040x}",
        value=chance.getrandbits(80),
        valid_after=0,
        valid_before=chance.getrandbits(40),
        nonce=f"0x{chance.getrandbits(256):064x}",
        signature=signature,
        header="",
    )


def signed(one: SignedPayment, signature: str) -> SignedPayment:
    return SignedPayment(
        one.payer, one.to, one.value, one.valid_after, one.valid_before, one.nonce, signature, one.header
    )


def by_eth_account(one: SignedPayment, token: Token) -> str | None:
    try:
        return str(Account.recover_message(build_typed_data(one, token), signature=one.signature))
    except Exception:
        return None


def plain(r: int, s: int, v: int) -> str:
    return f"0x{r:064x}{s:064x}{v:02x}"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("token", TOKENS.values(), ids=lambda token: f"{token.symbol}-{token.chain}")
def test_who_really_signed_is_found(token: Token) -> None:
    chance = Random(1)
    for _ in range(25):
        account = Account.from_key(chance.randbytes(32))
        bare = payment(chance)
        made = account.sign_message(build_typed_data(bare, token))
        one = signed(bare, "0x" + bytes(made.signature).hex())
        assert recover_signer(one, token) == account.address == by_eth_account(one, token)


def bad_signatures() -> Iterator[str]:
    """Numbers from nowhere, about half of them on no curve; and the edges of what can be one."""
    chance = Random(2)
    for _ in range(150):
        yield plain(chance.getrandbits(256), chance.randrange(1, ORDER // 2), chance.choice((27, 28)))
    for r in EDGES:
        for s in EDGES[:3]:
            yield from (plain(r, s, 27), plain(r, s, 28))


@pytest.mark.usefixtures("either")
def test_a_signature_of_nobody_names_whom_eth_account_names() -> None:
    chance, token = Random(3), TOKENS["test", "USDC"]
    found = list[str | None]()
    for signature in bad_signatures():
        one = payment(chance, signature)
        found.append(recover_signer(one, token))
        assert found[-1] == by_eth_account(one, token), signature
    assert None in found
    assert any(found)


@pytest.mark.parametrize(
    "signature",
    [
        plain(5, ORDER // 2 + 1, 27),
        plain(5, 5, 0),
        plain(5, 5, 1),
        plain(5, 5, 29),
        plain(5, 5, 27)[:-2],
        "0x",
    ],
)
def test_what_no_token_takes_has_no_signer(signature: str) -> None:
    assert recover_signer(payment(Random(4), signature), TOKENS["test", "USDC"]) is None


# Without coincurve, as where it has no wheel


def test_both_ways_sign_alike() -> None:
    chance, fast, plain_python = Random(5), Curve(CoinCurveECCBackend()), Curve(NativeECCBackend())
    for key in (1, 2, ORDER - 1, *(chance.randrange(1, ORDER) for _ in range(10))):
        digest, secret = chance.randbytes(32), key.to_bytes(32, "big")
        assert fast.public_key(secret) == plain_python.public_key(secret)
        made = plain_python.sign(secret, digest)
        assert made == fast.sign(secret, digest)
        assert fast.recover(digest, made) == plain_python.recover(digest, made) == fast.public_key(secret)


def test_coincurve_is_used_where_it_is_installed() -> None:
    assert isinstance(eip712.CURVE.backend, CoinCurveECCBackend)


WITHOUT = """
import sys, pytest
sys.modules["coincurve"] = None
status = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
assert type(sys.modules["faregate.x402.eip712"].CURVE.backend).__name__ == "NativeECCBackend"
sys.exit(status)
"""


def test_payments_are_made_and_checked_without_coincurve() -> None:
    wanted = "pays or signature and not any"
    tests = ["tests/emulator/test_x402_client.py", "tests/emulator/test_proofs.py", "-k", wanted]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *tests], cwd=root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_python_314_needs_no_coincurve() -> None:
    needed = {
        (one := Requirement(text)).name: one for text in requires("faregate") or () if "emulator" in text
    }
    for version, wanted in (("3.11", True), ("3.13", True), ("3.14", False)):
        marker = needed["coincurve"].marker
        assert marker is not None
        assert marker.evaluate({"python_version": version, "extra": "emulator"}) is wanted
    assert "eth-keys" in needed


@pytest.mark.parametrize("number", [0, ORDER])
def test_a_number_that_is_no_private_key_makes_no_wallet(number: int) -> None:
    with pytest.raises(ConfigurationError, match="private key"):
        Wallet(f"{number:#066x}")
