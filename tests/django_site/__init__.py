"""The one Django project of the tests. `ready()` before anything of Django is used."""

import os

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
        connections.close_all()
