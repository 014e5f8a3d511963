"""System checks: what is wrong with a project's setup, in `manage.py check`.

Modules that import views are imported inside the checks: Django registers checks before all apps are loaded.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register

from faregate.django import conf
from faregate.django.middleware_mistakes import Mistake, list_debug_mistakes, list_stack_mistakes
from faregate.errors import ConfigurationError
from faregate.routes.check import check, describe_journals


def register_all() -> None:
    register(check_middleware, Tags.security)
    register(check_prices, Tags.security)
    register(check_settings, Tags.security)
    register(check_names, Tags.security)
    register(check_offers, Tags.security, deploy=True)


def check_middleware(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E001: missing. E005: there twice. E007: not the last one. E009: something answers in its place."""
    try:
        path_rules = conf.get_config().path_rules
    except ConfigurationError:
        path_rules = None  # check_settings reports it
    return _make_errors(list_stack_mistakes(path_rules))


def check_prices(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E008: a view whose price is placed where it is given away, or where it cannot be sold."""
    from faregate.django.routes import list_route_mistakes

    try:
        return [Error(mistake, id="faregate.E008") for mistake in dict.fromkeys(list_route_mistakes())]
    except ConfigurationError:
        return []  # check_settings reports it


def check_settings(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E002: a mistake in `FAREGATE`. E003: a live key with DEBUG. E004: one with the memory journal."""
    try:
        config = conf.get_config()
    except ConfigurationError as mistake:
        # By its text, because configuration errors have no codes.
        is_memory = "memory journal" in str(mistake)
        return [Error(str(mistake), id="faregate.E004" if is_memory else "faregate.E002")]
    return _make_errors(list_debug_mistakes(config.paywall.settings.api_key.environment))


def check_names(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E006: the emulator in this process does not know what is sold. No other service is asked."""
    from faregate.django.routes import list_routes

    try:
        table = list_routes()
    except ConfigurationError:
        return []  # check_settings reports it
    try:
        table.expect_offers()
    except ConfigurationError as mistake:
        return [Error(str(mistake), id="faregate.E006")]
    return []


def check_offers(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """E006: something cannot be sold. W001: the journal is in memory.

    Only with `--deploy`, because the service is asked.
    """
    from faregate.django.routes import list_routes

    try:
        table = list_routes()
        problems = check(table)
    except ConfigurationError:
        return []  # check_settings reports it
    return [
        *(Error(problem, id="faregate.E006") for problem in problems),
        *(Warning(note, id="faregate.W001") for note in describe_journals(table)),
    ]


def _make_errors(mistakes: Iterable[Mistake]) -> list[CheckMessage]:
    return [
        Error(mistake.message, hint=mistake.hint, id=f"faregate.{mistake.number}") for mistake in mistakes
    ]
