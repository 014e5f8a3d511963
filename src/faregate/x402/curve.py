"""Keys and signatures on secp256k1: with coincurve where it is installed, else with eth-keys in pure Python.

coincurve needs a compiler where it has no wheel, as for Python 3.14. eth-keys takes milliseconds instead of
microseconds.
"""

from importlib.util import find_spec
from typing import Any, Final, Protocol

ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
"""A private key is a number from 1 to one below this."""


class Curve(Protocol):
    """A private key is 32 bytes, a public key 64; a signature is r, s and the recovery bit, 65 bytes."""

    def sign(self, key: bytes, digest: bytes) -> bytes:
        """Sign deterministically (RFC 6979), with the lower `s`."""
        ...

    def public_key(self, key: bytes) -> bytes: ...

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        """The public key that signed, or None for a signature that no key makes."""
        ...


class CoincurveCurve:
    """libsecp256k1."""

    def __init__(self) -> None:
        import coincurve

        self._keys: Any = coincurve

    def sign(self, key: bytes, digest: bytes) -> bytes:
        made: bytes = self._keys.PrivateKey(key).sign_recoverable(digest, hasher=None)
        return made

    def public_key(self, key: bytes) -> bytes:
        return self._plain(self._keys.PrivateKey(key).public_key)

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        try:
            found = self._keys.PublicKey.from_signature_and_message(signature, digest, hasher=None)
        except Exception:  # coincurve has no one exception for a point that is not on the curve
            return None
        return self._plain(found)

    def _plain(self, key: Any) -> bytes:
        point: bytes = key.format(compressed=False)
        return point[1:]


class PythonCurve:
    """eth-keys, without anything compiled."""

    def __init__(self) -> None:
        from eth_keys import datatypes, exceptions
        from eth_keys.backends.native.main import NativeECCBackend
        from eth_utils.exceptions import ValidationError

        self._native: Any = NativeECCBackend()
        self._types: Any = datatypes
        self._wrong = (exceptions.BadSignature, ValidationError)

    def sign(self, key: bytes, digest: bytes) -> bytes:
        made = self._native.ecdsa_sign(digest, self._types.PrivateKey(key, backend=self._native))
        return bytes(made.to_bytes())

    def public_key(self, key: bytes) -> bytes:
        found = self._native.private_key_to_public_key(self._types.PrivateKey(key, backend=self._native))
        return bytes(found.to_bytes())

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        try:
            read = self._types.Signature(signature, backend=self._native)
            return bytes(self._native.ecdsa_recover(digest, read).to_bytes())
        except self._wrong:
            return None


def best_curve() -> Curve:
    """The fastest that is installed."""
    return PythonCurve() if find_spec("coincurve") is None else CoincurveCurve()


CURVE: Final = best_curve()
