"""The settings in an app's config: read once, when the extension goes around the app."""

from copy import copy
from typing import Any, cast

from flask import Flask

from faregate.errors import ConfigurationError
from faregate.settings import (
    OTHER_VARIABLES,
    SETTINGS,
    Arguments,
    check_spelling,
    from_config,
    name_variable,
)

_FUNCTIONS = ("on_event", "payment_page", "payment_body")
_RULES = ("offers", "refuse")
_CHANGEABLE: tuple[type, ...] = (dict, list)
_NAMES = (*SETTINGS, "journal", *_FUNCTIONS, *_RULES)


def spell(name: str) -> str:
    """A setting as messages name it."""
    return f"{name_variable(name)} in the app's config"


class AppConfig:
    """The settings in the config of an app. Raises `ConfigurationError`.

    `has_own_paywall`: the extension was given a paywall, and reads the path rules only.
    """

    def __init__(self, app: Flask, has_own_paywall: bool) -> None:
        self._config = cast(dict[str, Any], app.config)
        self._check_spelling()
        for name in _NAMES:
            self._config.setdefault(name_variable(name), None)
        # Lists and dicts may be changed in place.
        self._read = {
            key: _copy(self._config[key]) for key in map(name_variable, _RULES if has_own_paywall else _NAMES)
        }

    def __getitem__(self, name: str) -> Any:
        return self._config[name_variable(name)]

    @property
    def functions(self) -> dict[str, Any]:
        return {name: self[name] for name in _FUNCTIONS}

    def read_arguments(self) -> Arguments:
        """The arguments of a paywall. Raises `ConfigurationError`."""
        values = {name: self[name] for name in SETTINGS}
        return from_config(values, spell)

    def check_unchanged(self) -> None:
        """Raise `ConfigurationError` for a setting that was made or changed after it was read."""
        self._check_spelling()
        for key, value in self._read.items():
            if self._config.get(key) != value:
                raise ConfigurationError(
                    f"{key} in the app's config was set after the paywall had read it: set it before "
                    "Faregate(app), or before paywall.init_app(app)."
                )

    def _check_spelling(self) -> None:
        # A misspelt FAREGATE_OFFERS or FAREGATE_REFUSE would leave everything below the prefixes free.
        known = {*map(name_variable, _NAMES), *OTHER_VARIABLES}
        check_spelling(self._config, known, " in the app's config")


def _copy(value: Any) -> Any:
    return copy(value) if isinstance(value, _CHANGEABLE) else value
