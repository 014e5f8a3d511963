"""Read `settings.FAREGATE` when it is first needed, and again after a test changed it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from django.utils.module_loading import import_string

from faregate.core.interfaces import Journal
from faregate.django.options import database_of_journal, read_options
from faregate.errors import ConfigurationError
from faregate.journals.policy import JournalContext
from faregate.middleware.path_rules import PathRules
from faregate.observers import Listener
from faregate.paywall import MakeJournal, Paywall
from faregate.settings import SETTINGS, from_config


@dataclass(frozen=True, slots=True)
class Config:
    """What one process sells with."""

    paywall: Paywall
    path_rules: PathRules


@cache
def get_config() -> Config:
    """The paywall of `settings.FAREGATE`, else of the environment. Raises `ConfigurationError`."""
    said = read_options()
    given = {name: said.get(name.upper()) for name in SETTINGS}
    arguments = from_config(given, lambda name: f"FAREGATE[{name.upper()!r}]")
    paywall = Paywall(
        journal=_journal(said), on_event=_listener(said), transport=said.get("TRANSPORT"), **arguments
    )
    return Config(paywall, PathRules(said.get("OFFERS"), said.get("REFUSE", ())))


def reset(*, setting: str = "FAREGATE", **_: object) -> None:
    """Forget the paywall when its settings change, as `override_settings` does."""
    if setting == "FAREGATE" and get_config.cache_info().currsize:
        get_config().paywall.close()
        get_config.cache_clear()


def _listener(said: Mapping[str, Any]) -> Listener | None:
    """A function, or its dotted path: settings are read before the apps can be imported."""
    named = said.get("ON_EVENT")
    if not isinstance(named, str):
        return cast("Listener | None", named)
    try:
        return cast(Listener, import_string(named))
    except ImportError as error:
        raise ConfigurationError(
            f"FAREGATE['ON_EVENT'] names {named!r}, which is not there: {error}"
        ) from None


def _journal(said: Mapping[str, Any]) -> str | Journal | MakeJournal | None:
    using = database_of_journal()
    if using is None:
        return cast("str | Journal | MakeJournal | None", said.get("JOURNAL"))

    def make(context: JournalContext) -> Journal:
        from faregate.django.journal import make_journal

        return make_journal(context, using=using)

    return make
