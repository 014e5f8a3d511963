"""Whom a probe asks, who pays, and what it may cost. An emulator's own world needs nothing named."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from faregate.cli.command import CommandError
from faregate.merchant.api_key import ApiKey
from faregate.merchant.transports import Transport
from faregate.merchant.types import Environment
from faregate.pay.wallet import PayerWallet, get_test_payer, load_payer_key
from faregate.probe.client import Line
from faregate.probe.discovery import Market, Wanted, look_around
from faregate.probe.session import Bench
from faregate.service.builtin import READ_ONLY_TEST_KEY, TEST_KEY
from faregate.service.catalog import build_catalog
from faregate.service.config import World
from faregate.service.worldkeys import world_name

READER_VARIABLE = "FAREGATE_READ_ONLY_KEY"
_LATE_PAYER = "reads"
_OTHER: dict[Environment, Environment] = {"test": "live", "live": "test"}


@dataclass(frozen=True, slots=True)
class Setting:
    base_url: str
    line: Line
    wallet: PayerWallet
    slow_wallet: PayerWallet | None
    wanted: Wanted
    reader: ApiKey | None
    foreign_revision: str | None

    @classmethod
    def of(cls, arguments: Namespace, environ: Mapping[str, str], transport: Transport | None = None) -> Self:
        """From arguments and environment. Raises `CommandError` and `ConfigurationError`."""
        key = _api_key(environ, allow_live=arguments.allow_live)
        base_url = arguments.base_url or environ.get("FAREGATE_BASE_URL") or ""
        if not base_url:
            raise CommandError("Which service? Say --base-url, or set FAREGATE_BASE_URL.")
        payer = load_payer_key(arguments.payer, arguments.key_file, environ)
        live = key.environment == "live"
        if live and not payer.own:
            raise CommandError(
                "Live payments need a key of your own: --key-file FILE, or FAREGATE_PAYER_KEY."
            )
        late = None if payer.own else get_test_payer(_LATE_PAYER)
        return cls(
            base_url,
            Line(key, base_url, timeout=arguments.timeout, transport=transport),
            PayerWallet(payer, arguments.max, live=live),
            None if late is None else PayerWallet(late, arguments.max, live=False),
            Wanted(arguments.resource, arguments.revision, arguments.free_resource, arguments.slow_resource),
            _reader(environ),
            arguments.foreign_revision,
        )

    def bench(self) -> Bench:
        """After a look around. Raises `CommandError` if there is nothing to look at."""
        market = look_around(self.line, self.wallet, self.wanted)
        foreign = self.foreign_revision or _foreign(market, self.line.environment)
        return Bench(self.line, market, self.wallet, self.slow_wallet, self.reader, foreign)


def _api_key(environ: Mapping[str, str], *, allow_live: bool) -> ApiKey:
    key = ApiKey(environ.get("FAREGATE_API_KEY", ""))
    if key.environment == "live" and not allow_live:
        raise CommandError(
            "A live key spends real money: up to four payments of what is bought. "
            "Use a test key, or say --allow-live."
        )
    return key


def _reader(environ: Mapping[str, str]) -> ApiKey | None:
    """The key that may only read; each world of an emulator has one."""
    own = environ.get("FAREGATE_API_KEY", "")
    usual = READ_ONLY_TEST_KEY if own == TEST_KEY else f"{own}.readonly" if world_name(own) else None
    given = environ.get(READER_VARIABLE) or usual
    return None if given is None else ApiKey(given)


def _foreign(market: Market, environment: Environment) -> str | None:
    """A revision of the other environment, if this is an emulator's built-in world."""
    world, other = World.builtin(), _OTHER[environment]
    ids = {one.revision_id for one in market.revisions}
    own = {one.active.id for one in build_catalog(world, environment).listings.values()}
    there = build_catalog(world, other).listings.values()
    return next((one.active.id for one in there), None) if ids <= own else None
