"""A payment in a file, while it is open: who comes back without it would pay twice.

The file is for its owner only (0600) and says which request the payment is for.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from faregate.errors import ConfigurationError
from faregate.operations.app_loader import WrongCall
from faregate.pay.http import Purchase


class Keeper:
    """`path` None: nothing is written unless the payment stays open; then it is a file made for it."""

    def __init__(self, purchase: Purchase, path: str | None) -> None:
        self._purchase = purchase
        self._proof: str | None = None
        self.path = path

    def resume(self) -> str | None:
        """The proof that is kept for this request, or None. Raises `WrongCall` if it is for another."""
        if self.path is None or not os.path.exists(self.path):
            return None
        kept = _read(self.path)
        if (kept.get("method"), kept.get("url")) != (self._purchase.method, self._purchase.shown):
            raise WrongCall(
                f"{self.path} keeps the payment for {kept.get('method')} {kept.get('url')}, not for this."
            )
        self._proof = str(kept["proof"])
        return self._proof

    def keep(self, proof: str) -> None:
        """Before it is sent. Raises `ConfigurationError` if it cannot be written."""
        self._proof = proof
        if self.path is not None:
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except OSError as error:
                raise ConfigurationError(f"the payment cannot be kept, so it was not sent: {error}") from None
            self._write(descriptor, proof)

    def keep_open(self) -> str | None:
        """Where the payment is, for who comes back: in a new file if none was named. None without one."""
        if self.path is None and self._proof is not None:
            descriptor, self.path = tempfile.mkstemp(prefix="faregate-payment-", suffix=".json")
            self._write(descriptor, self._proof)
        return self.path

    def drop(self) -> None:
        """The result was received: the payment is used up."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)

    def _write(self, descriptor: int, proof: str) -> None:
        kept = {"method": self._purchase.method, "url": self._purchase.shown, "proof": proof}
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(json.dumps(kept) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the payment kept in {path} cannot be read: {error}") from None
    if not isinstance(found, dict) or not isinstance(cast("dict[str, Any]", found).get("proof"), str):
        raise ConfigurationError(f"{path} keeps no payment")
    return cast("dict[str, Any]", found)
