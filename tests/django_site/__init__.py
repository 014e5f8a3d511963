"""The one Django project of the tests. `ready()` before anything of Django is used."""

import os
import shutil
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django_site.settings")
MIGRATED = "TESTS_MIGRATED"
"""Processes that a test starts find in their environment which databases have their tables."""


def ready() -> None:
    """Django set up in this process, and its database with all tables."""
    import django
    from django.core.management import call_command
    from django.db import connections

    django.setup()
    migrated = f"{MIGRATED}_{connections['default'].settings_dict['NAME']}"
    if migrated not in os.environ:
        call_command("migrate", verbosity=0)
        os.environ[migrated] = "yes"
        connections.close_all()  # before the process forks


def use_own_database() -> None:
    """In a fork: go on with a copy of the databases of the process that forked."""
    from tests.django_site.settings import DATABASES, make_folder

    folder = Path(make_folder())
    for database in DATABASES.values():
        old = Path(str(database["NAME"]))
        new = folder / old.name
        if old.exists():
            shutil.copy(old, new)
        if f"{MIGRATED}_{old}" in os.environ:
            os.environ[f"{MIGRATED}_{new}"] = "yes"
        database["NAME"] = new
