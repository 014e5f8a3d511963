"""The journal in Django's database: for all processes and machines that share it. An app to opt into.

INSTALLED_APPS = [..., "faregate.django.journal"], then `python manage.py migrate faregate_journal`.
"""

import time

from django.apps import apps as project

from faregate.django.journal.database import migrate_command
from faregate.errors import ConfigurationError
from faregate.journals.clock import ServerClock
from faregate.journals.persistent import PersistentJournal
from faregate.journals.urls import JournalContext

__all__ = ["make_journal"]


def make_journal(context: JournalContext, *, using: str = "default") -> PersistentJournal:
    """Make the journal in the database `using`. Opens nothing. Raises `ConfigurationError`.

    It is encrypted with keys derived from `SECRET_KEY`. Rows that were written under older ones are read with
    those in `SECRET_KEY_FALLBACKS`.
    """
    if not project.is_installed("faregate.django.journal"):
        raise ConfigurationError(
            'The journal is a Django app of its own: add "faregate.django.journal" to INSTALLED_APPS, '
            f"then run {migrate_command(using)}."
        )
    # Models can be imported only when all apps are loaded.
    from faregate.django.journal.store import DjangoStore, derive_keys, run_in_request_thread

    store = DjangoStore(context.namespace, using)
    return PersistentJournal(
        store,
        keys=derive_keys(),
        seller=context.seller,
        policy=context.policy,
        clock=ServerClock(store.get_server_time) if store.has_server_time else time.time,
        run=run_in_request_thread,
    )
