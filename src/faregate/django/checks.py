"""What is wrong with a project's setup, said by `manage.py check` before a payer can find out."""

from collections.abc import Sequence
from inspect import isclass
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.utils.module_loading import import_string

from faregate.django import PaywallMiddleware, conf
from faregate.errors import Misconfigured
from faregate.inventory.asking import check

MIDDLEWARE = "faregate.django.PaywallMiddleware"
_LAST = f'Put "{MIDDLEWARE}" at the end of MIDDLEWARE.'


def register_all() -> None:
    register(check_middleware, Tags.security)
    register(check_settings, Tags.security)
    register(check_offers, Tags.security, deploy=True)


def check_middleware(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E001: missing. W001: not the last one. E005: there twice."""
    places = [number for number, name in enumerate(settings.MIDDLEWARE) if _is_ours(name)]
    if not places:
        missing = "The paywall is not in MIDDLEWARE: every paid view is an error."
        return [Error(missing, hint=_LAST, id="faregate.E001")]
    if len(places) > 1:
        return [Error("The paywall is in MIDDLEWARE twice.", hint=_LAST, id="faregate.E005")]
    after = settings.MIDDLEWARE[places[0] + 1 :]
    if after:
        seen = f"{after[0]!r} comes after the paywall, and sees results before they are paid for."
        return [Warning(seen, hint=_LAST, id="faregate.W001")]
    return []


def check_settings(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E002: a mistake in `FAREGATE`. E003: a live key with DEBUG. E004: one with the memory journal.

    W002: ATOMIC_REQUESTS around the journal's own database.
    """
    try:
        shop = conf.shop()
    except Misconfigured as mistake:
        forgets = "memory journal" in str(mistake)
        return [Error(str(mistake), id="faregate.E004" if forgets else "faregate.E002")]
    found: list[CheckMessage] = []
    live = shop.paywall.settings.api_key.environment == "live"
    if live and settings.DEBUG:
        told = "A live key is used with DEBUG: error pages tell payers about the shop."
        found.append(Error(told, hint="Set DEBUG = False, or use a test key.", id="faregate.E003"))
    return [*found, *_atomic()]


def check_offers(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E006, with `--deploy` alone, because it asks the service: something that cannot be sold."""
    from faregate.django.routes import inventory_of

    try:
        inventory = inventory_of()
        faults = check(conf.shop().paywall, inventory)
    except Misconfigured:
        return []  # check_settings tells it
    return [Error(fault, id="faregate.E006") for fault in faults]


def _is_ours(name: str) -> bool:
    """By what it is: it may be named by its own module, or be a subclass."""
    found = import_string(name)
    return isclass(found) and issubclass(found, PaywallMiddleware)


def _atomic() -> list[CheckMessage]:
    using = conf.database_of_journal()
    if using is None or not settings.DATABASES.get(using, {}).get("ATOMIC_REQUESTS"):
        return []
    told = (
        "The journal is in a database with ATOMIC_REQUESTS. A price that is not the outermost thing on a "
        "view or a class's method cannot be sold: its payment would be written inside the view's transaction."
    )
    hint = "Put @paid above all other decorators, or mark such views with transaction.non_atomic_requests."
    return [Warning(told, hint=hint, id="faregate.W002")]
