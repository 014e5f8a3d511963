"""The journal in Django's database: for all processes and machines that share it. An app, to be opted into.

INSTALLED_APPS = [..., "faregate.django.journal"], then `python manage.py migrate faregate_journal`.
"""

import time

from django.apps import apps as project

from faregate.django.journal.transactions import migrate_command
from faregate.errors import Misconfigured
from faregate.journals.clock import ServerClock
from faregate.journals.persistent import StoredJournal
from faregate.journals.policy import JournalContext

__all__ = ["make_journal"]


def make_journal(context: JournalContext, *, using: str = "default") -> StoredJournal:
    """Make the journal in the database `using`. Opens nothing. Raises `Misconfigured`.

    It is sealed with keys made of `SECRET_KEY`; what was sealed with older ones is read with
    `SECRET_KEY_FALLBACKS`.
    """
    if not project.is_installed("faregate.django.journal"):
        raise Misconfigured(
            'The journal is an app of its own: put "faregate.django.journal" into INSTALLED_APPS, '
            f"then run {migrate_command(using)}."
        )
    from faregate.django.journal.store import DjangoShelf, in_djangos_thread, secret_keys

    shelf = DjangoShelf(context.namespace, using)
    return StoredJournal(
        shelf,
        keys=secret_keys(),
        seller=context.seller,
        terms=context.terms,
        clock=ServerClock(shelf.server_time) if shelf.has_server_time else time.time,
        run=in_djangos_thread,
    )
