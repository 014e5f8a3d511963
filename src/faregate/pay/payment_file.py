"""The file that keeps a signed payment while it may still be charged: without it, the payer would pay twice.

Only its owner can read the file (mode 0600). It also names the request that the payment is for. It is
written whole or not at all, and before the payment is first sent.
"""

import json
import os
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from faregate.errors import CommandError, ConfigurationError
from faregate.pay.request import RequestSpec

_CLOCK_TOLERANCE = 60
"""Seconds that the clocks of this machine and of a chain may differ."""


@dataclass(frozen=True, slots=True)
class SavedPayment:
    """A signed payment and what is known about it. `valid_until` is a Unix time, None if unknown.

    `is_open` says that it may have been charged: it was perhaps sent, and no response ruled a charge out.
    `idempotency_key` is sent with it, and None if the request has credentials of its own. `identifier` names
    the purchase to sellers that ask for that (`payment-identifier` of x402).
    """

    proof: str = field(repr=False)
    valid_until: int | None = None
    idempotency_key: str | None = field(default=None, repr=False)
    is_open: bool = True
    is_delivered: bool = False
    identifier: str | None = field(default=None, repr=False)

    def can_be_replaced(self, now: datetime) -> bool:
        """Return whether it was refused and can no longer be charged, so that a new one may be signed."""
        if self.is_open or self.is_delivered or self.valid_until is None:
            return False
        return now.timestamp() > self.valid_until + _CLOCK_TOLERANCE


class PaymentFile:
    """Without a `path`, nothing is written unless the payment stays pending; then a new file is created."""

    def __init__(self, request: RequestSpec, path: str | None) -> None:
        self._request = request
        self.payment: SavedPayment | None = None
        self.path = path

    def load(self) -> SavedPayment | None:
        """Return the payment kept for this request, or None if there is no file yet.

        Raises `CommandError` if the file is for another request, `ConfigurationError` if it is unreadable.
        """
        if self.path is None or not os.path.exists(self.path):
            return None
        content = _read(self.path)
        spec = self._request
        if (content.get("method"), content.get("url")) != (spec.method, spec.display_url):
            raise CommandError(
                f"The payment in {self.path} is for {content.get('method')} {content.get('url')}, "
                "not for this request."
            )
        if content.get("body_sha256", _hash_body(spec)) != _hash_body(spec):
            raise CommandError(f"The payment in {self.path} is for a request with another body.")
        self.payment = _parse_payment(content, self.path)
        return self.payment

    def save(self, payment: SavedPayment) -> None:
        """Write the payment before it is first sent. Raises `ConfigurationError`."""
        self.payment = payment
        if self.path is not None:
            try:
                # A link fails if the file exists: a second call that started at the same time must not
                # overwrite this payment.
                self._write(os.link)
            except OSError as error:
                raise ConfigurationError(
                    f"the payment was not sent, because it could not be saved: {error}"
                ) from None

    def update(self, payment: SavedPayment) -> None:
        """Record what became known about the payment."""
        self.payment = payment
        if self.path is not None:
            self._write(os.replace)

    def save_pending(self) -> str | None:
        """Return the path of the file with the payment, creating one if needed; None without a payment."""
        if self.path is None and self.payment is not None:
            descriptor, self.path = tempfile.mkstemp(prefix="faregate-payment-", suffix=".json")
            os.close(descriptor)
            self._write(os.replace)
        return self.path

    def delete(self) -> None:
        """Delete the file: the payment is used up, or is certain never to be charged."""
        self.payment = None
        if self.path is not None:
            # Not synced: if it comes back after a power cut, its payment is only sent again.
            Path(self.path).unlink(missing_ok=True)

    def _write(self, place: Any) -> None:
        """Write the payment to a new file beside `path`, and `place` it there. It is on disk afterwards."""
        path = Path(cast(str, self.path))
        content = json.dumps(_build_content(self._request, cast(SavedPayment, self.payment)))
        # `mkstemp` creates the file with mode 0600.
        descriptor, written = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(content + "\n")
                file.flush()
                # On disk before it is sent: after a power cut its payer must still find it.
                os.fsync(file.fileno())
            place(written, path)
        finally:
            Path(written).unlink(missing_ok=True)
        _sync_directory(path.parent)


class PaymentDirectory:
    """A directory with one file for each purchase that is not over."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `ConfigurationError` if the directory cannot be made."""
        self._path = Path(path)
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"payments={str(path)!r} cannot be used: {error}") from None

    def find_file(self, request: RequestSpec) -> PaymentFile:
        """Return the file for the payment of this request: its method, URL, body and `Idempotency-Key`."""
        identity = [request.method, request.url, _hash_body(request), request.find_header("idempotency-key")]
        name = sha256(json.dumps(identity).encode()).hexdigest()[:32]
        return PaymentFile(request, str(self._path / f"{name}.json"))


class PurchaseLock:
    """A lock that other processes, threads and tasks see. The kernel frees it when its process dies."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_take(self) -> bool:
        """Return whether the lock was free and is now held. Raises `ConfigurationError`."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be used as a lock: {error}") from None
        if _lock(descriptor) and _is_same_file(descriptor, self._path):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False

    def release(self) -> None:
        """Free the lock, if it is held, and remove its file."""
        if self._descriptor is not None:
            # Removed while it is held: a process that opens the old file now finds that it is not the same.
            Path(self._path).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int) -> bool:
    import fcntl  # here, because Windows has none

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _hash_body(request: RequestSpec) -> str:
    return sha256(request.body or b"").hexdigest()


def _build_content(request: RequestSpec, payment: SavedPayment) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.display_url,
        "body_sha256": _hash_body(request),
        "proof": payment.proof,
        "valid_until": payment.valid_until,
        "idempotency_key": payment.idempotency_key,
        "is_open": payment.is_open,
        "is_delivered": payment.is_delivered,
        "payment_identifier": payment.identifier,
    }


def _parse_payment(content: dict[str, Any], path: str) -> SavedPayment:
    proof, until, key = (content.get(name) for name in ("proof", "valid_until", "idempotency_key"))
    is_open, is_delivered = content.get("is_open", True), content.get("is_delivered", False)
    identifier = content.get("payment_identifier")
    are_valid = isinstance(until, int | None) and all(
        isinstance(name, str | None) for name in (key, identifier)
    )
    if not isinstance(proof, str) or not are_valid:
        raise ConfigurationError(f"{path} does not contain a payment")
    # What is not certainly false is true: a payment that may be charged is not replaced.
    return SavedPayment(proof, until, key, is_open is not False, is_delivered is not False, identifier)


def _read(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the payment in {path}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} does not contain a payment")
    return cast("dict[str, Any]", content)


def _sync_directory(path: Path) -> None:
    """Make the name of a new file survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
