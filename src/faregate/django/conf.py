"""Build the paywall of `settings.FAREGATE` when it is first needed, and again when a test changes it.

Its events are sent as a signal, for code that cannot be named in `ON_EVENT`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from django.dispatch import Signal
from django.urls import LocalePrefixPattern, get_resolver, get_urlconf
from django.utils.module_loading import import_string
from django.utils.translation import get_language, get_language_from_path

from faregate.checkout.path_rules import PathRules, list_paths
from faregate.core.interfaces import Journal
from faregate.django.options import find_journal_database, name_setting, read_options
from faregate.errors import ConfigurationError
from faregate.events import Event
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.urls import JournalContext, journal_from_url
from faregate.maintenance.journal import JournalView, make_view
from faregate.paywall import MakeJournal, Paywall
from faregate.server_config import lets_clients_set_root
from faregate.settings import IN_PROCESS, SETTINGS, choose_setting_names, from_config, read_journal_settings

payment_event = Signal()
"""Sent by the class `Paywall` with each event, as `event`. A receiver must not block."""


class SignalObserver:
    """Sends the events of the paywall of this process."""

    def is_listening(self) -> bool:
        return bool(payment_event.receivers)

    def receive(self, event: Event) -> None:
        # Django logs what a receiver raises, and calls the others.
        payment_event.send_robust(Paywall, event=event)


class LocalePathRules(PathRules):
    """Path rules that also read a path without its language.

    With `i18n_patterns`, `/de/reports` is below `/reports`.
    """

    def list_other_paths(self, path: str, root: str) -> tuple[str, ...]:
        """List the path without its language."""
        below = path.removeprefix(root)
        first, _, rest = below[1:].partition("/")
        # Django matches the language that is active, which may be none of LANGUAGES.
        is_language = first == get_language() or get_language_from_path(below) is not None
        return list_paths(f"/{rest}", root) if is_language and _has_language_patterns() else ()


def _has_language_patterns() -> bool:
    # Not remembered: the module of the URLs may be the one that is being imported.
    try:
        patterns = get_resolver(get_urlconf()).url_patterns
    except Exception:  # Django raises it again for a request
        return False
    return any(isinstance(pattern.pattern, LocalePrefixPattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Config:
    """The paywall of this process, and its path rules."""

    paywall: Paywall
    path_rules: PathRules


@cache
def get_config() -> Config:
    """The paywall of `settings.FAREGATE`, else of the environment. Raises `ConfigurationError`."""
    options = read_options()
    arguments = from_config({name: options.get(name.upper()) for name in SETTINGS}, name_setting)
    paywall = Paywall(
        journal=_choose_journal(options),
        on_event=_import_function(options, "ON_EVENT"),
        payment_page=_import_function(options, "PAYMENT_PAGE"),
        payment_body=_import_function(options, "PAYMENT_BODY"),
        transport=options.get("TRANSPORT"),
        name_setting=name_setting,
        **arguments,
    )
    paywall.add_observer(SignalObserver())
    path_rules = LocalePathRules(options.get("OFFERS"), options.get("REFUSE", ()))
    path_rules.clients_set_root = lets_clients_set_root()
    return Config(paywall, path_rules)


def get_journal_view() -> JournalView:
    """Return a view of the journal of `settings.FAREGATE`; of all namespaces if there is no API key.

    Raises `ConfigurationError`.
    """
    options, using = read_options(), find_journal_database()
    named = {f"FAREGATE_{name}": value for name, value in options.items() if isinstance(value, str)}
    environ = {**os.environ, **named}
    own = environ.get("FAREGATE_JOURNAL") is None and options.get("JOURNAL") is not None
    if own or environ.get("FAREGATE_API_KEY") or environ.get("FAREGATE_BASE_URL") in IN_PROCESS:
        paywall = get_config().paywall
        return make_view(
            paywall.journal, paywall.settings.namespace, paywall.settings.name_setting("journal")
        )
    context = JournalContext("", "", DEFAULT_POLICY)
    if using is not None:
        return make_view(_import_make_journal()(context, using=using), None)
    typed = choose_setting_names(os.environ, {name.lower() for name in options}, name_setting)
    settings = read_journal_settings(environ, typed)
    journal = journal_from_url(settings.journal, settings.keys, context, typed("journal"))
    return make_view(journal, None, typed("journal"))


def reset(*, setting: str = "FAREGATE", **_: object) -> None:
    """Forget the paywall when its settings change, as `override_settings` does."""
    # Only what was built is closed: `get_config` alone would build a paywall of the new settings.
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

    return lambda context: _import_make_journal()(context, using=using)


def _import_make_journal() -> Callable[..., Journal]:
    # Django's models can be imported only when all apps are loaded.
    from faregate.django.journal import make_journal

    return make_journal
