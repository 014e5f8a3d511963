"""Replace the emulator of this process while a test runs."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from faregate.emulator.emulator import Emulator
from faregate.emulator.transports import get_embedded_transport
from faregate.paywall import EMBEDDED
from faregate.settings import EMULATOR

_HIDDEN = ("FAREGATE_API_KEY", "FAREGATE_JOURNAL", "FAREGATE_JOURNAL_KEY", "FAREGATE_LAST_RESORT")


@contextmanager
def use_emulator(emulator: Emulator) -> Generator[None]:
    """Let every paywall with `FAREGATE_BASE_URL=emulator:`, or without settings, use this emulator.

    Paywalls created earlier, such as when an app was imported, start again with this emulator. Environment
    variables that name another service, key or journal are hidden meanwhile, so that no test talks to a real
    service.
    """
    holder = get_embedded_transport()
    before, holder.emulator = holder.emulator, emulator
    with patch.dict(os.environ, {"FAREGATE_BASE_URL": EMULATOR}):
        for name in _HIDDEN:
            os.environ.pop(name, None)
        _reset_paywalls()
        try:
            yield
        finally:
            holder.emulator = before
            _reset_paywalls()


def _reset_paywalls() -> None:
    # A copy: a paywall that another thread creates meanwhile must not break the loop.
    for paywall in list(EMBEDDED):
        paywall.forget()
