"""Encrypt what a journal stores (AEAD), and find rows by keyed hashes (HMAC).

To rotate keys, put the new one in front: the first key encrypts, all of them decrypt. Remove an old key when
no row needs it any more (`PersistentJournal.usage_of_keys`). Each row has a key of its own, derived from its
lookup key, and the name of the field is the AEAD's associated data: a value that an attacker who can write
the database moves to another row or field does not decrypt.
"""

import hmac
import ssl
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from faregate.core.claim_types import Claimant
from faregate.core.request_headers import hash_credential
from faregate.errors import ConfigurationError, JournalUnreadable
from faregate.journals.row_rules import Fingerprint
from faregate.x402.headers import find_authorization

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.poly1305 import Poly1305
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "A stored journal needs cryptography: pip install 'faregate[sqlite]', or [redis], or [postgres]",
        name=error.name,
    ) from error

KEY_BYTES = 32
_ID_BYTES = 8
_NONCE_BYTES = 12
_TAG_BYTES = 16
_CHUNK = 1 << 20


class _Key(NamedTuple):
    """One journal key: its id, and the two keys derived from it, one for each use."""

    id: bytes
    lookup: bytes
    encryption: bytes


class LookupKey(NamedTuple):
    """Under which key a row is stored, the journal key this was derived with, and the request in hashes."""

    key: bytes
    key_id: str
    fingerprint: Fingerprint


class Keyring:
    """The keys of a journal, newest first, 32 random bytes each. Raises `ConfigurationError`."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            raise ConfigurationError(f"A stored journal needs keys of {KEY_BYTES} random bytes each.")
        self._keys = {key.id: key for key in map(_derive_key, keys)}
        self._newest = next(iter(self._keys.values()))
        self.key_ids = frozenset(key.id.hex() for key in self._keys.values())

    def __repr__(self) -> str:
        return f"<{len(self._keys)} journal keys>"

    def lookup_keys(self, proof: str, claimant: Claimant) -> dict[bytes, LookupKey]:
        """Under which keys the row of a proof may be stored, newest first: one for each journal key."""
        named = find_authorization(proof)
        lookup_keys = (_derive_lookup_key(key, proof, claimant, named) for key in self._keys.values())
        return {lookup.key: lookup for lookup in lookup_keys}

    def hash_authorization(self, proof: str) -> list[str]:
        """Hash the authorization of a proof, once for each journal key; an empty list if it has none."""
        named = find_authorization(proof)
        return [_hash_authorization(key, named) for key in self._keys.values()] if named else []

    def hash_request(self, row: bytes, key_id: str, claimant: Claimant) -> Fingerprint:
        """Hash a request as that of a row's proof was. Raises `JournalUnreadable`."""
        key = self._keys.get(bytes.fromhex(key_id))
        if key is None:
            raise _key_missing()
        return _hash_request(key, row, claimant)

    def hash_purchase(self, purchase: str) -> bytes:
        """Hash without a row's key: the rows of one purchase must show as such."""
        return _hash(self._newest.lookup, b"purchase\0" + purchase.encode())

    def encrypt(self, row: bytes, field: str, plain: bytes) -> bytes:
        """Return key id, nonce and ciphertext. `row` is the row's lookup key."""
        key, nonce = self._newest, _make_nonce()
        return key.id + nonce + _cipher(key, row).encrypt(nonce, plain, field.encode())

    def encrypt_parts(self, row: bytes, field: str, parts: Sequence[bytes]) -> "EncryptedParts":
        """Return what `encrypt` would of these parts together, to be encrypted while it is read."""
        key, nonce = self._newest, _make_nonce()
        return EncryptedParts(key.id, _derive_row_key(key, row), nonce, field.encode(), parts)

    def decrypt(self, row: bytes, field: str, encrypted: bytes) -> bytes:
        """Raises `JournalUnreadable`."""
        key = self._keys.get(encrypted[:_ID_BYTES])
        if key is None:
            raise _key_missing()
        nonce, rest = encrypted[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], encrypted[_ID_BYTES + _NONCE_BYTES :]
        try:
            return _cipher(key, row).decrypt(nonce, rest, field.encode())
        # A value that was cut short has no whole nonce (`ValueError`).
        except (InvalidTag, ValueError):
            raise JournalUnreadable(
                f"the {field} of a journal row was changed, or moved there from another row"
            ) from None


class EncryptedParts:
    """A large value in chunks: key id, nonce, ciphertext and tag, with no more than a chunk in memory.

    This is ChaCha20-Poly1305 (RFC 8439, section 2.8), whose ready-made form takes a value as a whole. Each
    reading gives the same.
    """

    def __init__(self, key_id: bytes, key: bytes, nonce: bytes, data: bytes, parts: Sequence[bytes]) -> None:
        self._key_id = key_id
        self._key = key
        self._nonce = nonce
        self._associated = data
        self._parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return _ID_BYTES + _NONCE_BYTES + self._size + _TAG_BYTES

    def __iter__(self) -> Iterator[bytes]:
        # Block 0 of the stream is the key of the tag, the blocks from 1 encrypt.
        cipher = Cipher(ChaCha20(self._key, bytes(4) + self._nonce), mode=None).encryptor()
        tag = Poly1305(cipher.update(bytes(64))[:32])
        tag.update(_pad(self._associated))
        yield self._key_id + self._nonce
        for part in self._parts:
            view = memoryview(part)
            for start in range(0, len(part), _CHUNK):
                encrypted = cipher.update(view[start : start + _CHUNK])
                tag.update(encrypted)
                yield encrypted
        lengths = len(self._associated).to_bytes(8, "little") + self._size.to_bytes(8, "little")
        tag.update(bytes(-self._size % 16) + lengths)
        yield tag.finalize()


# Under load, threads switch at each release of the interpreter's lock. `hmac.digest` and `os.urandom` release
# it for a microsecond.


def _hash(key: bytes, data: bytes) -> bytes:
    """Return the HMAC with SHA-256."""
    return hmac.new(key, data, "sha256").digest()


def _make_nonce() -> bytes:
    return ssl.RAND_bytes(_NONCE_BYTES)


def _key_missing() -> JournalUnreadable:
    return JournalUnreadable(
        "a journal row is encrypted with a key that is not among this journal's: "
        "put the older key back, behind the newest one"
    )


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


def _derive_lookup_key(key: _Key, proof: str, claimant: Claimant, authorization: str) -> LookupKey:
    row = _hash(key.lookup, proof.encode())
    named = _hash_authorization(key, authorization) if authorization else ""
    return LookupKey(row, key.id.hex(), _hash_request(key, row, claimant, named))


def _hash_request(key: _Key, row: bytes, claimant: Claimant, authorization: str = "") -> Fingerprint:
    """Hash with the row's key as a salt: rows of one client, or with equal bodies, do not show as such."""

    def digest(use: bytes, text: str) -> str:
        return _hash(key.lookup, b"%s\0%s\0%s" % (row, use, text.encode())).hex()

    client = frozenset(
        hash_credential(credential, lambda text: digest(b"client", text)[:16])
        for credential in claimant.credentials
    )
    body = digest(b"body", claimant.body_digest)[:32] if claimant.body_digest else ""
    return Fingerprint(digest(b"request", claimant.request), client, body, authorization)


def _hash_authorization(key: _Key, authorization: str) -> str:
    """Hash without the row's key: the rows of one authorization must show as such, to find one by another."""
    return _hash(key.lookup, b"authorization\0" + authorization.encode()).hex()[:32]


def _derive_key(key: bytes) -> _Key:
    # These labels are part of the stored format: another label derives another key, and no row is found.
    return _Key(_derive(key, "id", _ID_BYTES), _derive(key, "look-up", 32), _derive(key, "seal", 32))


def _derive(key: bytes, use: str, size: int) -> bytes:
    return HKDF(SHA256(), size, salt=None, info=f"faregate journal 1 {use}".encode()).derive(key)


@lru_cache(maxsize=1024)
def _cipher(key: _Key, row: bytes) -> ChaCha20Poly1305:
    """One key per row: random 96-bit nonces then must differ only among the few values of one row."""
    return ChaCha20Poly1305(_derive_row_key(key, row))


def _derive_row_key(key: _Key, row: bytes) -> bytes:
    return _hash(key.encryption, row)
