"""The file that keeps a signed payment while it is pending: without it, the payer would pay twice.

Only its owner can read the file (mode 0600). It also names the request that the payment is for.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from faregate.errors import CommandError, ConfigurationError
from faregate.pay.http import RequestSpec


class PaymentFile:
    """Without a `path`, nothing is written unless the payment stays pending; then a new file is created."""

    def __init__(self, request: RequestSpec, path: str | None) -> None:
        self._request = request
        self._proof: str | None = None
        self.path = path

    def load(self) -> str | None:
        """Return the proof kept for this request, or None if there is no file yet.

        Raises `CommandError` if the file is for another request, `ConfigurationError` if it is unreadable.
        """
        if self.path is None or not os.path.exists(self.path):
            return None
        content = _read(self.path)
        if (content.get("method"), content.get("url")) != (self._request.method, self._request.display_url):
            raise CommandError(
                f"The payment in {self.path} is for {content.get('method')} {content.get('url')}, "
                "not for this request."
            )
        self._proof = str(content["proof"])
        return self._proof

    def save(self, proof: str) -> None:
        """Write the proof before it is first sent. Raises `ConfigurationError`."""
        self._proof = proof
        if self.path is not None:
            try:
                # O_EXCL: a second call that started at the same time must not overwrite this payment.
                descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except OSError as error:
                raise ConfigurationError(
                    f"the payment was not sent, because it could not be saved: {error}"
                ) from None
            self._write(descriptor, proof)

    def save_pending(self) -> str | None:
        """Return the path of the file with the payment, creating one if needed; None without a payment."""
        if self.path is None and self._proof is not None:
            descriptor, self.path = tempfile.mkstemp(prefix="faregate-payment-", suffix=".json")
            self._write(descriptor, self._proof)
        return self.path

    def delete(self) -> None:
        """Delete the file: the result was received, so the payment is used up."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)

    def _write(self, descriptor: int, proof: str) -> None:
        content = {"method": self._request.method, "url": self._request.display_url, "proof": proof}
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(json.dumps(content) + "\n")
            file.flush()
            # On disk before it is sent: after a power cut its payer must still find it.
            os.fsync(file.fileno())


def _read(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the payment in {path}: {error}") from None
    if not isinstance(content, dict) or not isinstance(cast("dict[str, Any]", content).get("proof"), str):
        raise ConfigurationError(f"{path} does not contain a payment")
    return cast("dict[str, Any]", content)
