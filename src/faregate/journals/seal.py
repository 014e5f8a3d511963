"""What is stored can be read and looked up by whoever has the keys, and by nobody else.

The first key seals; all open, so that keys can be changed: put the new one in front, and take the old
one out when no row needs it any more. Each row is sealed under a key of its own, each field under its
name: a value that is moved to another row or field does not open.
"""

import hmac
import os
from collections.abc import Sequence
from typing import NamedTuple

from faregate.errors import JournalUnreadable, Misconfigured

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "A stored journal needs cryptography: pip install 'faregate[sqlite]', or [redis], or [postgres]",
        name=error.name,
    ) from error

KEY_BYTES = 32
_ID_BYTES = 8
_NONCE_BYTES = 12


class _Key(NamedTuple):
    """What is made of one key: a name for it, and keys for its two uses."""

    id: bytes
    look_up: bytes
    sealing: bytes


class Keyring:
    """The keys of one namespace, newest first, 32 random bytes each. Raises `Misconfigured`."""

    def __init__(self, keys: Sequence[bytes], namespace: str) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise Misconfigured(f"A stored journal needs keys of {KEY_BYTES} random bytes each.")
        self._keys = {made.id: made for made in map(_made_of, keys)}
        self._newest = next(iter(self._keys.values()))
        self._namespace = namespace.encode()

    def __repr__(self) -> str:
        return f"<{len(self._keys)} journal keys>"

    def names(self, proof: str, request: str) -> dict[bytes, str]:
        """Under which key a proof's row stands, newest first, and how it then knows its request."""
        return dict(self._name(key.look_up, proof, request) for key in self._keys.values())

    def _name(self, look_up: bytes, proof: str, request: str) -> tuple[bytes, str]:
        name = hmac.digest(look_up, b"%s\0%s" % (self._namespace, proof.encode()), "sha256")
        return name, hmac.digest(look_up, name + request.encode(), "sha256").hex()

    def seal(self, row: bytes, field: str, plain: bytes) -> bytes:
        key, nonce = self._newest, os.urandom(_NONCE_BYTES)
        return key.id + nonce + _cipher(key, row).encrypt(nonce, plain, field.encode())

    def open(self, row: bytes, field: str, sealed: bytes) -> bytes:
        """Raises `JournalUnreadable`."""
        key = self._keys.get(sealed[:_ID_BYTES])
        if key is None:
            raise JournalUnreadable(
                "a journal row is sealed with a key that is not among this journal's: "
                "put the older key back, behind the newest one"
            )
        nonce, rest = sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], sealed[_ID_BYTES + _NONCE_BYTES :]
        try:
            return _cipher(key, row).decrypt(nonce, rest, field.encode())
        except (InvalidTag, ValueError):
            raise JournalUnreadable(
                f"the {field} of a journal row was changed, or moved there from another row"
            ) from None


def _made_of(key: bytes) -> _Key:
    return _Key(
        *(_derived(key, use, size) for use, size in (("id", _ID_BYTES), ("look-up", 32), ("seal", 32)))
    )


def _derived(key: bytes, use: str, size: int) -> bytes:
    return HKDF(SHA256(), size, salt=None, info=f"faregate journal 1 {use}".encode()).derive(key)


def _cipher(key: _Key, row: bytes) -> ChaCha20Poly1305:
    """A key per row: random nonces then need to differ only within one row."""
    return ChaCha20Poly1305(hmac.digest(key.sealing, row, "sha256"))
