"""Build the paywall of `settings.FAREGATE` when it is first needed, and again when a test changes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from django.utils.module_loading import import_string

from faregate.core.interfaces import Journal
from faregate.django.options import find_journal_database, read_options
from faregate.errors import ConfigurationError
from faregate.journals.policy import JournalContext
from faregate.middleware.path_rules import PathRules
from faregate.paywall import MakeJournal, Paywall
from faregate.settings import SETTINGS, from_config


@dataclass(frozen=True, slots=True)
class Config:
    """The paywall of this process, and its path rules."""

    paywall: Paywall
    path_rules: PathRules


@cache
def get_config() -> Config:
    """The paywall of `settings.FAREGATE`, else of the environment. Raises `ConfigurationError`."""
    options = read_options()
    arguments = from_config(
        {name: options.get(name.upper()) for name in SETTINGS}, lambda name: f"FAREGATE[{name.upper()!r}]"
    )
    paywall = Paywall(
        journal=_choose_journal(options),
        on_event=_import_function(options, "ON_EVENT"),
        payment_page=_import_function(options, "PAYMENT_PAGE"),
        payment_body=_import_function(options, "PAYMENT_BODY"),
        transport=options.get("TRANSPORT"),
        **arguments,
    )
    return Config(paywall, PathRules(options.get("OFFERS"), options.get("REFUSE", ())))


def reset(*, setting: str = "FAREGATE", **_: object) -> None:
    """Forget the paywall when its settings change, as `override_settings` does."""
    if setting == "FAREGATE" and get_config.cache_info().currsize:
        get_config().paywall.close()
        get_config.cache_clear()


def _import_function(options: Mapping[str, Any], name: str) -> Any:
    # It may be a dotted path, because settings are read before the apps can be imported.
    given = options.get(name)
    if not isinstance(given, str):
        return given
    try:
        return import_string(given)
    except ImportError as error:
        raise ConfigurationError(
            f"FAREGATE[{name!r}] names {given!r}, which cannot be imported: {error}"
        ) from None


def _choose_journal(options: Mapping[str, Any]) -> str | Journal | MakeJournal | None:
    using = find_journal_database()
    if using is None:
        return cast("str | Journal | MakeJournal | None", options.get("JOURNAL"))

    def make(context: JournalContext) -> Journal:
        # Django's models can be imported only when all apps are loaded.
        from faregate.django.journal import make_journal

        return make_journal(context, using=using)

    return make
