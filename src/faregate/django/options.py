"""What `settings.FAREGATE` says, before anything is made of it."""

import os
from collections.abc import Mapping
from typing import Any, cast

from django.conf import settings

from faregate.errors import ConfigurationError
from faregate.settings import OBJECTS, SETTINGS

DATABASE = "django:"
"""The journal in Django's own database; `django:replica` names another of `DATABASES`."""

_NAMES = sorted(name.upper() for name in (*SETTINGS, *OBJECTS, "offers", "refuse"))


def database_of_journal() -> str | None:
    """Which of `DATABASES` the journal is in, if it is in one. Raises `ConfigurationError`."""
    journal = read_options().get("JOURNAL") or os.environ.get("FAREGATE_JOURNAL")
    if not isinstance(journal, str) or not journal.startswith(DATABASE):
        return None
    return journal.removeprefix(DATABASE) or "default"


def read_options() -> Mapping[str, Any]:
    """`settings.FAREGATE`, as it is written. Raises `ConfigurationError` for a name that it does not know."""
    said: Any = getattr(settings, "FAREGATE", {})
    if not isinstance(said, Mapping):
        raise ConfigurationError("settings.FAREGATE must be a dict, such as {'BASE_URL': 'emulator:'}.")
    found = cast(Mapping[str, Any], said)
    if unknown := sorted(set(found).difference(_NAMES)):
        raise ConfigurationError(
            f"settings.FAREGATE has no setting {unknown[0]!r}. It knows {', '.join(_NAMES)}."
        )
    return found
