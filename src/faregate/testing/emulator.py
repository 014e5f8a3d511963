"""The emulator of a test: how it is set up, in place of that of the process, and over HTTP."""

import itertools
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from unittest.mock import patch

from faregate.emulator.clock import EmulatorClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.emulator.transports import get_embedded_transport
from faregate.errors import ConfigurationError
from faregate.rules.account import Account, Key
from faregate.rules.builtin_account import TEST_KEY, build_tenant_keys
from faregate.rules.ids import SeededIds
from faregate.settings import EMULATOR
from faregate.system import random_id, system_clock

_numbers = itertools.count(1)
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
            # Also the paywalls that were made meanwhile start again, with the former emulator.
            holder.emulator = before
            _reset_paywalls()


def _reset_paywalls() -> None:
    # A copy: a paywall that another thread creates meanwhile must not break the loop.
    for paywall in list(get_embedded_transport().paywalls):
        paywall.reset()


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """What `@pytest.mark.faregate(...)` or the ini file says.

    `clock` is "real", "frozen" (at the present), or the moment at which it is frozen.

    `seed` makes ids the same in every run. `strict` requires that every call is expected. `invariants` checks
    the payers' answers when the test is over.
    """

    clock: str | datetime = "real"
    seed: int | str | None = None
    strict: bool = False
    invariants: bool = False

    @classmethod
    def merge(cls, *sources: Mapping[str, Any]) -> Self:
        """Merge options; a later source wins. Raises `ConfigurationError` for an unknown name."""
        names = [field.name for field in fields(cls)]
        merged = {name: value for source in sources for name, value in source.items()}
        for name in merged:
            if name not in names:
                raise ConfigurationError(
                    f"pytest.mark.faregate has no option {name!r}; its options are {', '.join(names)}"
                )
        return cls(**merged)

    def build_emulator(self, account: Account, name: str) -> Emulator:
        """Build an emulator that also accepts the usual test key and the keys of the tenant `name`."""
        ids = random_id if self.seed is None else SeededIds(self.seed)
        return Emulator(_add_keys(account, name), clock=self._build_clock(), ids=ids)

    def _build_clock(self) -> EmulatorClock:
        if isinstance(self.clock, datetime):
            return EmulatorClock(system_clock, frozen_at=self.clock)
        if self.clock not in ("real", "frozen"):
            raise ConfigurationError(f'the clock must be "real", "frozen" or a datetime, not {self.clock!r}')
        clock = EmulatorClock(system_clock)
        if self.clock == "frozen":
            clock.freeze()
        return clock


def _add_keys(account: Account, name: str) -> Account:
    present = {key.key for key in account.keys}
    extra = (key for key in (Key(key=TEST_KEY), *build_tenant_keys(name)) if key.key not in present)
    return account.model_copy(update={"keys": (*account.keys, *extra)})


def make_tenant_name(test: str) -> str:
    """Make a name for this test's tenant: unique to this pytest-xdist worker, and never used twice in it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{worker}-{next(_numbers)}-{re.sub('[^A-Za-z0-9_-]+', '-', test)[:60].strip('-')}"


def make_tenant_key(name: str) -> str:
    """The API key of the tenant of this name, in test."""
    return build_tenant_keys(name)[0].key


class SharedServer:
    """One server for all tests of a process, on which each has a tenant of its own."""

    def __init__(self, url: str, tenants: Tenants) -> None:
        self.url = url
        self._tenants = tenants

    @contextmanager
    def serve_tenant(self, name: str, emulator: Emulator) -> Generator[str]:
        """Yield the URL, where the keys of this name reach this emulator while the block runs."""
        self._tenants.add(name, emulator)
        try:
            yield self.url
        finally:
            self._tenants.delete(name)


@contextmanager
def start_server() -> Generator[SharedServer]:
    # Imported here: only tests that need HTTP pay for the import of uvicorn.
    from faregate.emulator.server import serve

    tenants = Tenants(Emulator())
    with serve(tenants) as url:
        yield SharedServer(url, tenants)
