"""Read settings from options, `FAREGATE_SERVICE_*` variables and a TOML file, in this order of preference.

A message names a setting as the person typed it: `--port`, `FAREGATE_SERVICE_PORT`, or `port` in the file.
"""

import os
import re
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from faregate.errors import ConfigurationError, nearest_name
from faregate.selfhosted.settings import Settings

PREFIX: Final = "FAREGATE_SERVICE_"
_FILES: Final = {"database_file": "database"}
"""Settings that name a file, and the secret that the file holds."""
_FORMS: Final = {
    "auth_hook": "must be module.function",
    "gas_key": "must be file:PATH, env:NAME or call:module.function",
}
"""What to say instead of a pattern."""
_KNOWN: Final = (*Settings.model_fields, *_FILES)


@dataclass(slots=True)
class _Given:
    """Values by setting, and how each was spelt by the person who gave it."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    spelling: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, name: str, value: Any, spelling: str) -> None:
        """Add a value unless a preferred source gave one already."""
        setting = _FILES.get(name, name)
        if setting not in self.values:
            self.values[setting] = _read_secret(value, spelling) if name in _FILES else value
            self.spelling[setting] = spelling


def add_options(parser: ArgumentParser, names: Sequence[str] = _KNOWN) -> None:
    """Add `--config` and an option for each of these settings."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="read settings from this TOML file")
    for name in names:
        add(_spell_option(name), dest=name, metavar=_get_metavar(name), help=_get_help(name))


def read_settings(options: Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read and check the settings; `ConfigurationError` says what to change."""
    _check_kubernetes(environ)
    given = _Given()
    for name in _KNOWN:
        value = getattr(options, name, None)
        if value is not None:
            given.add(name, value, _spell_option(name))
    _add_variables(given, environ)
    config = getattr(options, "config", None) or environ.get(f"{PREFIX}CONFIG")
    if config:
        _add_file(given, config)
    return _build_settings(given)


def _add_variables(given: _Given, environ: Mapping[str, str]) -> None:
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG" or not value.strip():
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _KNOWN:
            known = [f"{PREFIX}{one.upper()}" for one in _KNOWN]
            raise ConfigurationError(f"{variable} is not a setting.{nearest_name(variable, known)}")
        given.add(name, value.strip(), variable)


def _add_file(given: _Given, path: str) -> None:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the settings: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    for name, value in values.items():
        if name not in _KNOWN:
            raise ConfigurationError(f"{path}: {name} is not a setting.{nearest_name(name, _KNOWN)}")
        given.add(name, value, f"{name} in {path}")


def _build_settings(given: _Given) -> Settings:
    try:
        return Settings.model_validate(given.values)
    except ValidationError as error:
        # Neither input nor context: they may hold a secret.
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    message = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:
        raise ConfigurationError(
            f"the settings do not fit together: {message}.{_name_missing(given, message)}"
        )
    name = str(fault["loc"][0])
    if fault["type"] == "string_pattern_mismatch":
        message = _FORMS[name]
    raise ConfigurationError(f"{given.spelling[name]}: {message}")


def _name_missing(given: _Given, message: str) -> str:
    """Name the variables of the settings in this message that nobody gave."""
    words = re.findall(r"\w+", message)
    missing = [f"{PREFIX}{name.upper()}" for name in _KNOWN if name in words and name not in given.values]
    return f" Set {' or '.join(missing)}." if missing else ""


def _read_secret(path: Any, spelling: str) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"{spelling}: cannot read {path}: {reason}") from None


def _check_kubernetes(environ: Mapping[str, str]) -> None:
    # For a Service named `faregate`, Kubernetes sets FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT.
    if environ.get("FAREGATE_PORT", "").startswith("tcp://"):
        raise ConfigurationError(
            "Kubernetes set FAREGATE_SERVICE_HOST and FAREGATE_SERVICE_PORT for its Service named faregate: "
            "put `enableServiceLinks: false` into the pod's spec, or name that Service otherwise"
        )


def _spell_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _get_metavar(name: str) -> str:
    if name in _FILES:
        return "FILE"
    return "URL" if name == "database" else "VALUE"


def _get_help(name: str) -> str:
    if name in _FILES:
        return f"read {_spell_option(_FILES[name])[2:]} from this file"
    one = Settings.model_fields[name]
    default = one.default.get_secret_value() if name == "database" else one.default
    shown = f"; default {default}" if default not in (None, ()) else ""
    return f"{one.description}{shown}".replace("%", "%%")
