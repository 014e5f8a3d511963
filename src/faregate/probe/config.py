"""Which service is probed, with which keys, and who pays. The emulator's own account needs no options."""

from argparse import Namespace
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager

from faregate.errors import CommandError
from faregate.merchant.api_key import ApiKey
from faregate.pay.wallet import PayerWallet, get_test_payer, load_payer_key
from faregate.probe.client import RawClient
from faregate.probe.discovery import FoundProducts, ProductChoice, discover
from faregate.probe.session import ProbeSession
from faregate.rules.builtin_account import READ_ONLY_TEST_KEY, TEST_KEY, builtin_account, parse_tenant_name
from faregate.rules.catalog import build_catalog, derive_org_id
from faregate.transports import Transport
from faregate.x402.tokens import Environment

READ_ONLY_KEY_VARIABLE = "FAREGATE_READ_ONLY_KEY"
_SLOW_PAYER = "reads"
_OTHER_ENVIRONMENT: dict[Environment, Environment] = {"test": "live", "live": "test"}


@contextmanager
def open_session(
    arguments: Namespace, environ: Mapping[str, str], transport: Transport | None = None
) -> Generator[ProbeSession]:
    """Discover what the service sells, with the client and the wallets that the arguments describe.

    Raises `CommandError` and `ConfigurationError`.
    """
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
    client = RawClient(key, base_url, timeout=arguments.timeout, transport=transport)
    wallet = PayerWallet(payer, arguments.max, live=live)
    slow_wallet = None if payer.own else PayerWallet(get_test_payer(_SLOW_PAYER), arguments.max, live=False)
    choice = ProductChoice(
        arguments.resource, arguments.revision, arguments.free_resource, arguments.slow_resource
    )
    read_only_key = _load_read_only_key(environ)
    with closing(client):
        catalog = discover(client, wallet, choice)
        foreign = arguments.foreign_revision or _find_foreign_revision(catalog, key.environment)
        yield ProbeSession(client, catalog, wallet, slow_wallet, read_only_key, foreign)


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
    """Return a revision of the other environment if this is the built-in account, else None.

    It is the emulator's, or that of a self-hosted service without an id.
    """
    account = builtin_account()
    published = {revision.revision_id for revision in catalog.revisions}
    for owner in (None, derive_org_id(account.seller)):
        listings = build_catalog(account, environment, owner).listings.values()
        if published <= {listing.active.id for listing in listings}:
            foreign = build_catalog(account, _OTHER_ENVIRONMENT[environment], owner).listings.values()
            return next((listing.active.id for listing in foreign), None)
    return None
