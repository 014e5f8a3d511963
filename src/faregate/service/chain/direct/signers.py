"""Who signs for the gas account: a private key from a file or the environment, or a key management system.

The private key is in the memory of one object only: in no repr, error, log or database.
"""

import os
import stat
from operator import index
from pathlib import Path
from typing import Any, Final, Protocol

from eth_utils.address import to_checksum_address

from faregate.errors import ConfigurationError
from faregate.service.chain.direct.eip1559 import Signature, recover_sender
from faregate.service.hooks import import_function
from faregate.x402.eip712 import CURVE, ORDER, derive_address

_FORMS: Final = (
    "gas_key must be file:PATH, env:NAME, or call:MODULE.FUNCTION for a key management system; "
    "never the key itself"
)


class SigningFailed(Exception):
    """The gas account's signer gave no usable signature. Nothing was signed."""


class Signer(Protocol):
    """The gas account. `address` is its checksum address."""

    @property
    def address(self) -> str: ...

    def sign(self, digest: bytes) -> Signature:
        """Sign 32 bytes. Raises `SigningFailed`."""
        ...


class KeyHolder(Protocol):
    """What the function of `gas_key = "call:..."` returns. Signing may take the network, for a bounded time.

    `sign` returns r and s first; what follows is ignored. Either s will do.
    """

    @property
    def address(self) -> str: ...

    def sign(self, digest: bytes) -> tuple[int, ...]: ...


class KeySigner:
    """Signs with a private key in memory: 64 hex digits, with or without `0x`."""

    def __init__(self, private_key: str, source: str = "the private key") -> None:
        self._key = _read_hex(private_key, source)
        self.address = derive_address(self._key)

    def sign(self, digest: bytes) -> Signature:
        made = CURVE.sign(self._key, digest)
        return Signature(int.from_bytes(made[:32], "big"), int.from_bytes(made[32:64], "big"), made[64])

    def __repr__(self) -> str:
        return f"KeySigner({self.address})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a signer cannot be copied or pickled: its key would be written down")


class RemoteSigner:
    """Signs with a key that another program holds, and checks the signatures."""

    def __init__(self, holder: KeyHolder) -> None:
        self._holder = holder
        self.address = to_checksum_address(holder.address)

    def sign(self, digest: bytes) -> Signature:
        try:
            # `index` refuses floats, which would lose digits.
            r, s = map(index, self._holder.sign(digest)[:2])
            return _complete(digest, r, s, self.address)
        except SigningFailed:
            raise
        except Exception as error:
            failure = SigningFailed(f"signing failed with {type(error).__name__}")
        # Out here it has no context: the text of a stranger's error may hold anything.
        raise failure

    def __repr__(self) -> str:
        return f"RemoteSigner({self.address})"


def make_signer(gas_key: str) -> Signer:
    """Make the signer that the setting `gas_key` names. Raises `ConfigurationError`."""
    kind, _, name = gas_key.partition(":")
    if not name or kind not in ("file", "env", "call"):
        raise ConfigurationError(_FORMS)
    if kind == "file":
        return KeySigner(_read_file(Path(name)), f"the file {name}")
    if kind == "env":
        return KeySigner(_read_environment(name), f"the environment variable {name}")
    return _call(name)


def _read_file(path: Path) -> str:
    """Read the key file. As with PostgreSQL's, its group may read it only if the file is root's."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            # Of the file that was opened: the path may name another one by now.
            status = os.fstat(file.fileno())
            text = file.read(1024)
    except OSError as error:
        raise ConfigurationError(f"gas_key: the file {path} cannot be read: {error.strerror}") from None
    others = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP | (stat.S_IRGRP if status.st_uid else 0)
    if not stat.S_ISREG(status.st_mode) or status.st_mode & others:
        raise ConfigurationError(f"gas_key: others may read or change the file {path}: chmod 600 {path}")
    return text


def _read_environment(name: str) -> str:
    text = os.environ.get(name)
    if not text:
        raise ConfigurationError(f"gas_key: the environment variable {name} is not set")
    return text


def _call(name: str) -> RemoteSigner:
    try:
        imported = import_function(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"gas_key: {name} cannot be imported: {error}") from None
    try:
        return RemoteSigner(imported())
    except Exception as error:
        failure = ConfigurationError(
            f"gas_key: {name} must be a function without arguments that returns an object with address "
            f"and sign(digest); it failed with {type(error).__name__}"
        )
    raise failure


def _read_hex(private_key: str, source: str) -> bytes:
    text = private_key.strip().removeprefix("0x")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32 or not 0 < int.from_bytes(key, "big") < ORDER:
        # Not the value, and not what was wrong with it: this text is logged.
        raise ConfigurationError(f"gas_key: {source} must hold a private key: 64 hex digits")
    return key


def _complete(digest: bytes, r: int, s: int, address: str) -> Signature:
    """Return the form that a chain accepts: the lower s, and the parity that gives the address."""
    for signature in (Signature(r, min(s, ORDER - s), parity) for parity in (0, 1)):
        if 0 < r < ORDER and 0 < s < ORDER and recover_sender(digest, signature) == address:
            return signature
    raise SigningFailed(f"the signature is not of {address}")
