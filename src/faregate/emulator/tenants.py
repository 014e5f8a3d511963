"""Many emulators behind one server, one for each tenant: parallel tests share nothing but a port.

The first use of a key `svc_test_tenant_<name>` (or `svc_live_tenant_<name>`, where live keys are allowed)
creates the tenant `<name>`; `svc_test_tenant_<name>.readonly` is its read-only key. All other keys belong to
the main tenant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from faregate.core.models import WireRequest, header_values
from faregate.emulator.delivery import Delivery, add_marker
from faregate.emulator.emulator import Emulator
from faregate.errors import ConfigurationError
from faregate.merchant.problems import UNAUTHENTICATED
from faregate.rules.account import Account
from faregate.rules.builtin_account import is_valid_name, parse_tenant_name
from faregate.rules.http import HttpError

MAIN: Final = "main"
MAX_TENANTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class TenantConfig:
    """How a tenant differs from the main one: its account, or a seed for its ids."""

    account: Account | None = None
    seed: str | None = None


Listener = Callable[[WireRequest, Delivery], object]
"""Called with every call and its answer; it must not raise."""


def _ignore(_request: WireRequest, _delivery: Delivery) -> None: ...


class Tenants:
    """The main emulator and the others by name, which are built by `Emulator.like`."""

    def __init__(self, main: Emulator, on_call: Listener = _ignore) -> None:
        self.on_call = on_call
        self.main = main
        self._lock = Lock()
        self._others: dict[str, tuple[Emulator, TenantConfig]] = {}

    @property
    def names(self) -> list[str]:
        """All names, the main one first."""
        with self._lock:
            return [MAIN, *self._others]

    def find(self, name: str) -> Emulator | None:
        if name == MAIN:
            return self.main
        tenant = self._others.get(name)
        return None if tenant is None else tenant[0]

    def get_config(self, name: str) -> TenantConfig:
        """Return the configuration that it was created with."""
        tenant = self._others.get(name)
        return TenantConfig() if tenant is None else tenant[1]

    def get_or_create(
        self, name: str, *, account: Account | None = None, seed: int | str | None = None
    ) -> Emulator:
        """Return the tenant of this name, created if it is new; `ConfigurationError` if it cannot be.

        `account` and `seed` are for a new one; `ConfigurationError` if it exists with others.
        """
        setup = TenantConfig(account, None if seed is None else str(seed))
        if name == MAIN:
            return self._check_config(name, self.main, TenantConfig(), setup)
        if not is_valid_name(name):
            raise ConfigurationError("the name of a tenant has 1 to 100 letters, digits, _ and -")
        # Parallel tests may use a new key at the same moment: only one of them creates its tenant.
        with self._lock:
            if name in self._others:
                return self._check_config(name, *self._others[name], setup)
            if len(self._others) >= MAX_TENANTS:
                raise ConfigurationError(
                    f"there are {MAX_TENANTS} tenants already: delete those that are no longer used"
                )
            tenant = self.main.like(name, account=account, seed=seed)
            self._others[name] = tenant, setup
            return tenant

    def add(self, name: str, emulator: Emulator) -> None:
        """Serve this emulator as the tenant of this name; its keys must be those of the tenant."""
        with self._lock:
            self._others[name] = emulator, TenantConfig()

    def delete(self, name: str) -> bool:
        """Delete a tenant with its state; False if there is none. The main one stays."""
        with self._lock:
            return self._others.pop(name, None) is not None

    def deliver(self, request: WireRequest) -> Delivery:
        """Let the tenant of its key answer the call. Never raises."""
        try:
            delivery = self._route(request).deliver(request)
        except ConfigurationError as error:
            delivery = Delivery(add_marker(HttpError(UNAUTHENTICATED, str(error)).response()))
        self.on_call(request, delivery)
        return delivery

    @staticmethod
    def _check_config(name: str, there: Emulator, had: TenantConfig, requested: TenantConfig) -> Emulator:
        if requested not in (TenantConfig(), had):
            raise ConfigurationError(
                f"tenant {name!r} already exists with another account or seed: delete it first"
            )
        return there

    def _route(self, request: WireRequest) -> Emulator:
        # A request without exactly one key goes to the main tenant, whose service answers it 401.
        values = header_values(request.headers, "authorization")
        name = parse_tenant_name(values[0].partition(" ")[2].strip(" ")) if len(values) == 1 else None
        return self.main if name is None else self.get_or_create(name)
