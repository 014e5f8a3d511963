"""Read `settings.FAREGATE` without building anything from it."""

import os
from collections.abc import Mapping
from typing import Any, cast

from django.conf import settings

from faregate.errors import ConfigurationError, nearest_name
from faregate.settings import OBJECTS, SETTINGS

DATABASE = "django:"
"""The journal in Django's own database; `django:replica` names another of `DATABASES`."""

_NAMES = sorted(name.upper() for name in (*SETTINGS, *OBJECTS, "offers", "refuse"))


def find_journal_database() -> str | None:
    """The alias in `DATABASES` of the journal's database; None for another journal.

    Raises `ConfigurationError`.
    """
    journal = read_options().get("JOURNAL") or os.environ.get("FAREGATE_JOURNAL")
    if not isinstance(journal, str) or not journal.startswith(DATABASE):
        return None
    return journal.removeprefix(DATABASE) or "default"


def name_setting(name: str) -> str:
    """A setting as the seller writes it."""
    return f"FAREGATE[{name.upper()!r}]"


def read_options() -> Mapping[str, Any]:
    """Return `settings.FAREGATE` as it is written. Raises `ConfigurationError` for an unknown name.

    It also raises for a separate setting such as `settings.FAREGATE_OFFERS`, which is not read: its offers
    would be free.
    """
    options: Any = getattr(settings, "FAREGATE", {})
    if not isinstance(options, Mapping):
        raise ConfigurationError("settings.FAREGATE must be a dict, such as {'BASE_URL': 'emulator:'}.")
    mapping = cast(Mapping[str, Any], options)
    if unknown := sorted(map(str, set(mapping).difference(_NAMES))):
        hint, names = nearest_name(unknown[0].upper(), _NAMES), ", ".join(_NAMES)
        raise ConfigurationError(
            f"settings.FAREGATE has no setting {unknown[0]!r}.{hint or f' It knows {names}.'}"
        )
    for name in _NAMES:
        variable = f"FAREGATE_{name}"
        # Allowed if FAREGATE has the value too, or if the environment has it, which is read anyway.
        if name not in mapping and variable not in os.environ and hasattr(settings, variable):
            raise ConfigurationError(f"settings.{variable} is not read: write FAREGATE = {{'{name}': ...}}.")
    return mapping
