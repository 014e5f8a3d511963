"""What moves and proves the money of each environment, as the settings say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from faregate.errors import ConfigurationError
from faregate.payments.chain import ChainReader
from faregate.payments.direct import DirectPayments, GasAccount, GasPolicy, make_signer
from faregate.payments.facilitated import FacilitatorPayments
from faregate.payments.facilitator import Authenticate, FacilitatorClient, FacilitatorSettings
from faregate.selfhosted.settings import Settings
from faregate.service.payments import Payments
from faregate.system import system_clock
from faregate.x402.tokens import CHAINS, Environment

_WEI: Final = {"gwei": 10**9, "eth": 10**18}


@dataclass(frozen=True, slots=True)
class PaymentLine:
    """The real payments of one environment: a backend, its chain, and who sends the transfers."""

    environment: Environment
    payments: Payments
    chain: ChainReader
    facilitators: tuple[FacilitatorClient, ...] = ()
    gas_account: GasAccount | None = None

    def close(self) -> None:
        self.chain.close()
        for facilitator in self.facilitators:
            facilitator.close()


def build_lines(settings: Settings) -> dict[Environment, PaymentLine]:
    """Build the lines of all environments that have a node; none for simulated payments.

    Nothing is asked yet. Raises `ConfigurationError`.
    """
    if settings.payments == "simulated":
        return {}
    build = _build_direct if settings.payments == "direct" else _build_facilitated
    return {name: build(settings, name) for name in settings.environments}


def _build_facilitated(settings: Settings, environment: Environment) -> PaymentLine:
    chain = _build_chain(settings, environment)
    authenticate = None if settings.auth_hook is None else load_hook("auth_hook", settings.auth_hook)
    facilitators = tuple(
        _build_facilitator(url, authenticate) for url in settings.get_facilitators(environment)
    )
    return PaymentLine(environment, FacilitatorPayments(facilitators, chain), chain, facilitators)


def _build_facilitator(url: str, authenticate: Authenticate | None) -> FacilitatorClient:
    return FacilitatorClient(FacilitatorSettings(url, authenticate=authenticate))


def _build_direct(settings: Settings, environment: Environment) -> PaymentLine:
    chain = _build_chain(settings, environment)
    signer = make_signer(settings.gas_key or "")
    policy = GasPolicy(
        max_fee=int(settings.max_fee_gwei * _WEI["gwei"]),
        alarm_balance=int(settings.gas_alarm_eth * _WEI["eth"]),
    )
    account = GasAccount(chain, signer, system_clock, policy)
    return PaymentLine(environment, DirectPayments(account, chain), chain, gas_account=account)


def _build_chain(settings: Settings, environment: Environment) -> ChainReader:
    return ChainReader(
        CHAINS[environment],
        settings.get_rpc_urls(environment),
        clock=system_clock,
        confirmations=settings.confirmations,
    )


def load_hook(setting: str, name: str) -> Callable[..., Any]:
    """Import the function that a setting names, as `module.function`. Raises `ConfigurationError`."""
    module, _, function = name.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{setting}: {name} cannot be imported: {error}") from None
    if not callable(found):
        raise ConfigurationError(f"{setting}: {name} is no function")
    return found


def read_gas_balances(lines: Mapping[Environment, PaymentLine]) -> dict[str, float]:
    """Read what the gas accounts hold, in ETH by environment. Raises what asking a chain raises."""
    accounts = {name: line.gas_account for name, line in lines.items() if line.gas_account is not None}
    return {name: account.read_balance().wei / _WEI["eth"] for name, account in accounts.items()}
