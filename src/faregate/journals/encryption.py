"""Encrypt and look up what a journal stores: AEAD for values, keyed hashes for names.

The first key encrypts; all of them decrypt. To change a key, put the new one in front, and take the old one
out when no row needs it. Each row is encrypted under a key of its own, each field under its name: a value
that is moved to another row or field does not decrypt.
"""

import hmac
import os
from collections.abc import Sequence
from typing import NamedTuple

from faregate.core.claims import Claimant
from faregate.core.credentials import hash_credential
from faregate.errors import ConfigurationError, JournalUnreadable
from faregate.journals.row import Fingerprint

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


class Name(NamedTuple):
    """How a row is found: its key, the id of the journal key it is made with, and the request in hashes."""

    key: bytes
    key_id: str
    fingerprint: Fingerprint


class Keyring:
    """The keys of a journal, newest first, 32 random bytes each. Raises `ConfigurationError`."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise ConfigurationError(f"A stored journal needs keys of {KEY_BYTES} random bytes each.")
        self._keys = {made.id: made for made in map(_made_of, keys)}
        self._newest = next(iter(self._keys.values()))
        self.key_ids = frozenset(made.id.hex() for made in self._keys.values())

    def __repr__(self) -> str:
        return f"<{len(self._keys)} journal keys>"

    def names(self, proof: str, claimant: Claimant) -> dict[bytes, Name]:
        """Under which names a proof's row may stand, newest first, by key."""
        names = (_name(key, proof, claimant) for key in self._keys.values())
        return {name.key: name for name in names}

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


def _name(key: _Key, proof: str, claimant: Claimant) -> Name:
    """Hashes depend on the row: equal credentials or bodies of two sales do not show."""
    name = hmac.digest(key.look_up, proof.encode(), "sha256")

    def hashed(use: bytes, text: str) -> str:
        return hmac.digest(key.look_up, b"%s\0%s\0%s" % (name, use, text.encode()), "sha256").hex()

    client = frozenset(
        hash_credential(one, lambda text: hashed(b"client", text)[:16]) for one in claimant.credentials
    )
    body = hashed(b"body", claimant.body_digest)[:32] if claimant.body_digest else ""
    return Name(name, key.id.hex(), Fingerprint(hashed(b"request", claimant.request), client, body))


def _made_of(key: bytes) -> _Key:
    return _Key(
        *(_derived(key, use, size) for use, size in (("id", _ID_BYTES), ("look-up", 32), ("seal", 32)))
    )


def _derived(key: bytes, use: str, size: int) -> bytes:
    return HKDF(SHA256(), size, salt=None, info=f"faregate journal 1 {use}".encode()).derive(key)


def _cipher(key: _Key, row: bytes) -> ChaCha20Poly1305:
    """A key per row: random nonces then need to differ only within one row."""
    return ChaCha20Poly1305(hmac.digest(key.sealing, row, "sha256"))
