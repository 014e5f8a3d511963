"""Another emulator in the place of the one inside this process, while a test runs."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from faregate.emulator.emulator import Emulator
from faregate.emulator.transports import embedded
from faregate.paywall import EMBEDDED
from faregate.settings import EMULATOR

_OTHERS = ("FAREGATE_API_KEY", "FAREGATE_JOURNAL", "FAREGATE_JOURNAL_KEY", "FAREGATE_LAST_RESORT")


@contextmanager
def plugged(emulator: Emulator) -> Generator[None]:
    """Whoever sells with `FAREGATE_BASE_URL=emulator:` sells with this one; so does whoever has no setting.

    Paywalls that were made before, with an app at its import, begin anew. The environment names no other
    service, key or journal meanwhile.
    """
    here = embedded()
    before, here.emulator = here.emulator, emulator
    with patch.dict(os.environ, {"FAREGATE_BASE_URL": EMULATOR}):
        for name in _OTHERS:
            os.environ.pop(name, None)
        _begin_anew()
        try:
            yield
        finally:
            here.emulator = before
            _begin_anew()


def _begin_anew() -> None:
    for paywall in list(EMBEDDED):
        paywall.forget()
