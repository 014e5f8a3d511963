"""The one Django project of the tests. `ready()` before anything of Django is used."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django_site.settings")

_migrated = False


def ready() -> None:
    """Django set up in this process, and its database with all tables."""
    global _migrated
    import django
    from django.core.management import call_command

    django.setup()
    if not _migrated:
        call_command("migrate", verbosity=0)
        _migrated = True
