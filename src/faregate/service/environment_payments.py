"""The real payments of each environment, built from the settings; and the balances of the gas accounts."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from faregate.errors import ConfigurationError
from faregate.rules.payments import Payments
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct import DirectPayments, GasAccount, GasPolicy, make_signer
from faregate.service.chain.direct.fees import ETHER, GWEI
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorSettings
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from faregate.service.hooks import import_function
from faregate.service.settings import Settings
from faregate.system import system_clock
from faregate.x402.tokens import CHAINS, Environment

_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class EnvironmentPayments:
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


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """What this process has seen of one node or facilitator. `position` counts from 1, the preferred one.

    `failures` are the calls of `requests` without a usable answer; `seconds` is what all calls took.
    `disagreements` counts how often a node contradicted other nodes about a settlement.
    """

    environment: Environment
    position: int
    host: str
    requests: int
    failures: int
    seconds: float
    is_resting: bool
    disagreements: int = 0


def list_nodes(payments: Mapping[Environment, EnvironmentPayments]) -> list[PeerStatus]:
    """List the nodes of each environment, the preferred first."""
    return [
        PeerStatus(
            name,
            position,
            node.host,
            node.requests,
            node.failures,
            node.seconds,
            node.is_resting(),
            node.disagreements,
        )
        for name, environment_payments in payments.items()
        for position, node in enumerate(environment_payments.chain.client.nodes, 1)
    ]


def list_facilitators(payments: Mapping[Environment, EnvironmentPayments]) -> list[PeerStatus]:
    """List the facilitators of each environment, the preferred first."""
    now = system_clock().timestamp()
    return [
        PeerStatus(
            name, position, peer.name, peer.requests, peer.failures, peer.seconds, peer.rest.is_resting(now)
        )
        for name, environment_payments in payments.items()
        for position, peer in enumerate(environment_payments.facilitators, 1)
    ]


def build_payments(settings: Settings) -> dict[Environment, EnvironmentPayments]:
    """Build the payments of each environment that has a node; empty for simulated payments.

    Nothing is sent yet. Raises `ConfigurationError`.
    """
    if settings.payments == "simulated":
        return {}
    build = _build_direct if settings.payments == "direct" else _build_facilitated
    return {name: build(settings, name) for name in settings.environments}


def _build_facilitated(settings: Settings, environment: Environment) -> EnvironmentPayments:
    chain = _build_chain(settings, environment)
    authenticate = None if settings.auth_hook is None else load_hook("auth_hook", settings.auth_hook)
    facilitators = tuple(
        FacilitatorClient(FacilitatorSettings(url, authenticate=authenticate))
        for url in settings.get_facilitators(environment)
    )
    return EnvironmentPayments(environment, FacilitatorPayments(facilitators, chain), chain, facilitators)


def _build_direct(settings: Settings, environment: Environment) -> EnvironmentPayments:
    chain = _build_chain(settings, environment)
    signer = make_signer(settings.gas_key or "")
    policy = GasPolicy(
        max_fee=int(settings.max_fee_gwei * GWEI),
        alarm_balance=int(settings.gas_alarm_eth * ETHER),
    )
    account = GasAccount(chain, signer, system_clock, policy)
    return EnvironmentPayments(environment, DirectPayments(account, chain), chain, gas_account=account)


def _build_chain(settings: Settings, environment: Environment) -> ChainReader:
    return ChainReader(
        CHAINS[environment],
        settings.get_rpc_urls(environment),
        clock=system_clock,
        confirmations=settings.confirmations,
    )


def load_hook(setting: str, name: str) -> Callable[..., Any]:
    """Import the function that a setting names, as `module.function`. Raises `ConfigurationError`."""
    try:
        imported: Callable[..., Any] = import_function(name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{setting}: {name} cannot be imported: {error}") from None
    if not callable(imported):
        raise ConfigurationError(f"{setting}: {name} is no function")
    return imported


class GasWatch:
    """The latest balances of the gas accounts. Read now and then, not at each scrape of the metrics."""

    def __init__(self, payments: Mapping[Environment, EnvironmentPayments]) -> None:
        self._accounts = {
            name: environment_payments.gas_account
            for name, environment_payments in payments.items()
            if environment_payments.gas_account is not None
        }
        self._balances: dict[str, float] = {}

    def get_balances(self) -> Mapping[str, float]:
        """Return ETH by environment, as it was read last."""
        return self._balances

    def read(self) -> None:
        """Read the balances. Raises `PaymentsUnavailable`."""
        for name, account in self._accounts.items():
            balance = account.read_balance()
            ether = balance.wei / ETHER
            # Replaced, not changed: the metrics read it in another thread.
            self._balances = {**self._balances, name: ether}
            if balance.is_low:
                _log.warning(
                    "the gas account %s has %.6f ETH, less than gas_alarm_eth, or than a transfer may take "
                    "(%.6f): send it some",
                    balance.address,
                    ether,
                    balance.transfer_cost / ETHER,
                )
