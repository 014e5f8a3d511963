"""Which service is probed, with which keys, and who pays. The emulator's own account needs no options."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from faregate.errors import CommandError
from faregate.merchant.api_key import ApiKey
from faregate.merchant.transports import Transport
from faregate.pay.wallet import PayerWallet, get_test_payer, load_payer_key
from faregate.probe.client import RawClient
from faregate.probe.discovery import FoundProducts, ProductChoice, discover
from faregate.probe.session import ProbeSession
from faregate.service.builtin import READ_ONLY_TEST_KEY, TEST_KEY, builtin_account, parse_tenant_name
from faregate.service.catalog import build_catalog
from faregate.x402.tokens import Environment

READ_ONLY_KEY_VARIABLE = "FAREGATE_READ_ONLY_KEY"
_SLOW_PAYER = "reads"
_OTHER_ENVIRONMENT: dict[Environment, Environment] = {"test": "live", "live": "test"}


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """The resolved options of one probe."""

    base_url: str
    client: RawClient
    wallet: PayerWallet
    slow_wallet: PayerWallet | None
    choice: ProductChoice
    read_only_key: ApiKey | None
    foreign_revision: str | None

    @classmethod
    def from_arguments(
        cls, arguments: Namespace, environ: Mapping[str, str], transport: Transport | None = None
    ) -> Self:
        """Resolve arguments and environment variables. Raises `CommandError` and `ConfigurationError`."""
        key = _load_api_key(environ, allow_live=arguments.allow_live)
        base_url = arguments.base_url or environ.get("FAREGATE_BASE_URL") or ""
        if not base_url:
            raise CommandError("No service to probe: use --base-url, or set FAREGATE_BASE_URL.")
        payer = load_payer_key(arguments.payer, arguments.key_file, environ)
        live = key.environment == "live"
        if live and not payer.own:
            raise CommandError(
                "Live payments need a key of your own: use --key-file FILE, or set FAREGATE_PAYER_KEY."
            )
        slow_payer = None if payer.own else get_test_payer(_SLOW_PAYER)
        return cls(
            base_url,
            RawClient(key, base_url, timeout=arguments.timeout, transport=transport),
            PayerWallet(payer, arguments.max, live=live),
            None if slow_payer is None else PayerWallet(slow_payer, arguments.max, live=False),
            ProductChoice(
                arguments.resource, arguments.revision, arguments.free_resource, arguments.slow_resource
            ),
            _load_read_only_key(environ),
            arguments.foreign_revision,
        )

    def start_session(self) -> ProbeSession:
        """Discover what the service sells. Raises `CommandError` if its contracts cannot be read."""
        catalog = discover(self.client, self.wallet, self.choice)
        foreign = self.foreign_revision or _find_foreign_revision(catalog, self.client.environment)
        return ProbeSession(self.client, catalog, self.wallet, self.slow_wallet, self.read_only_key, foreign)


def _load_api_key(environ: Mapping[str, str], *, allow_live: bool) -> ApiKey:
    key = ApiKey(environ.get("FAREGATE_API_KEY", ""))
    if key.environment == "live" and not allow_live:
        raise CommandError(
            "A live key spends real money, up to four payments. Use a test key, or add --allow-live."
        )
    return key


def _load_read_only_key(environ: Mapping[str, str]) -> ApiKey | None:
    """Return the key from the environment; for an emulator's account, the read-only key it always has."""
    api_key = environ.get("FAREGATE_API_KEY", "")
    default = (
        READ_ONLY_TEST_KEY
        if api_key == TEST_KEY
        else f"{api_key}.readonly"
        if parse_tenant_name(api_key)
        else None
    )
    key = environ.get(READ_ONLY_KEY_VARIABLE) or default
    return None if key is None else ApiKey(key)


def _find_foreign_revision(catalog: FoundProducts, environment: Environment) -> str | None:
    """Return a revision of the other environment if this is the emulator's built-in account, else None."""
    account = builtin_account()
    known = {one.active.id for one in build_catalog(account, environment).listings.values()}
    if not {one.revision_id for one in catalog.revisions} <= known:
        return None
    foreign = build_catalog(account, _OTHER_ENVIRONMENT[environment]).listings.values()
    return next((one.active.id for one in foreign), None)
