"""Who signs for the gas account; a private key is never shown."""

import copy
import logging
import pickle
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faregate.errors import ConfigurationError
from faregate.service.chain.direct.eip1559 import Signature, recover_sender
from faregate.service.chain.direct.gas_account import sign_transaction
from faregate.service.chain.direct.signers import KeySigner, RemoteSigner, SigningFailed, make_signer
from faregate.x402.eip712 import ORDER
from tests.service.chain.test_eip1559 import TRANSACTION

KEY = "c0de" * 16
DIGEST = bytes(range(32))


class Kms:
    """A key management system: it knows neither the lower s nor the parity."""

    def __init__(self, high: bool = False) -> None:
        self._signer = KeySigner(KEY)
        self.address = self._signer.address.lower()
        self._high = high

    def sign(self, digest: bytes) -> tuple[int, int]:
        r, s, _ = self._signer.sign(digest)
        return r, ORDER - s if self._high else s


def open_kms() -> Kms:
    return Kms()


def refuse() -> Kms:
    raise RuntimeError(KEY)


def open_something_else() -> object:
    return SimpleNamespace(address="0x12", sign=None)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "gas.key"
    file.write_text(f"0x{KEY}\n")
    file.chmod(0o600)
    return file


def test_a_file_holds_the_key(key_file: Path) -> None:
    assert make_signer(f"file:{key_file}").address == KeySigner(KEY).address


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666, 0o777])
def test_a_file_that_others_may_read_or_change_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600") as error:
        make_signer(f"file:{key_file}")
    assert KEY not in str(error.value)


def test_the_group_may_read_a_file_of_root(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes mounts a secret for a group."""
    key_file.chmod(0o440)
    owner = 1000
    stat = key_file.stat()
    monkeypatch.setattr(
        "faregate.service.chain.direct.signers.os.fstat",
        lambda _: SimpleNamespace(st_mode=stat.st_mode, st_uid=owner),
    )
    with pytest.raises(ConfigurationError, match="chmod 600"):
        make_signer(f"file:{key_file}")
    owner = 0
    assert make_signer(f"file:{key_file}").address == KeySigner(KEY).address


def test_the_environment_holds_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAS_KEY", KEY)
    assert make_signer("env:GAS_KEY").address == KeySigner(KEY).address


@pytest.mark.parametrize("high", [False, True], ids=["lower s", "higher s"])
def test_a_key_management_system_signs(high: bool) -> None:
    signer = RemoteSigner(Kms(high))
    made = signer.sign(DIGEST)
    assert made == KeySigner(KEY).sign(DIGEST)
    assert recover_sender(DIGEST, made) == signer.address == KeySigner(KEY).address


def test_a_key_management_system_is_named() -> None:
    assert make_signer(f"call:{__name__}.open_kms").address == KeySigner(KEY).address


@pytest.mark.parametrize(
    "gas_key",
    [
        *("", KEY, f"0x{KEY}", f"key:{KEY}", "file:", "env:"),
        *(
            "file:/nowhere/gas.key",
            "file:/",
            "env:NOT_SET",
            "env:WRONG",
            "env:ZERO",
            "env:ORDER",
            "env:SHORT",
        ),
        *("call:nowhere.open", "call:open", f"call:{__name__}.nothing", f"call:{__name__}.refuse"),
        f"call:{__name__}.open_something_else",
    ],
)
def test_a_mistake_names_the_setting_and_shows_no_key(gas_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "WRONG": KEY[:-1] + "x",
        "ZERO": "0" * 64,
        "ORDER": f"{ORDER:x}",
        "SHORT": KEY[:-2],
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="gas_key") as error:
        make_signer(gas_key)
    assert KEY[:16] not in "".join(traceback.format_exception(error.value))


class Broken:
    """A key management system that answers with what it should not."""

    address = KeySigner(KEY).address

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def sign(self, digest: bytes) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [RuntimeError(KEY), None, (), (1,), ("r", "s"), (0, 0), (1, 1), (ORDER, 1), (2**300, 5), (-1, -1)],
    ids=repr,
)
def test_what_is_no_signature_fails(answer: Any) -> None:
    with pytest.raises(SigningFailed) as error:
        RemoteSigner(Broken(answer)).sign(DIGEST)
    assert KEY not in "".join(traceback.format_exception(error.value))


def test_the_signature_of_another_key_fails() -> None:
    other = KeySigner("1" * 64).sign(DIGEST)
    with pytest.raises(SigningFailed, match="is not of 0x"):
        RemoteSigner(Broken(other)).sign(DIGEST)


def test_no_transaction_is_made_of_the_signature_of_another_key() -> None:
    class Confused:
        address = KeySigner(KEY).address

        def sign(self, digest: bytes) -> Signature:
            return KeySigner("1" * 64).sign(digest)

    with pytest.raises(SigningFailed, match="is not of 0x"):
        sign_transaction(TRANSACTION, Confused(), at=0)


def test_a_key_is_not_shown_copied_or_written() -> None:
    signer = KeySigner(KEY)
    logging.getLogger(__name__).warning("%r %s", signer, signer)
    assert repr(signer) == str(signer) == f"KeySigner({signer.address})"
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            write(signer)
    assert repr(RemoteSigner(Kms())) == f"RemoteSigner({signer.address})"
