"""Inspect the keys and addresses of a journal, and move its rows when the service has moved."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from faregate.errors import ConfigurationError
from faregate.journals.store import KeyUsage
from faregate.maintenance.journal_view import check_shared
from faregate.merchant.address import make_namespace
from faregate.paywall import Paywall


@runtime_checkable
class AdministrableJournal(Protocol):
    """A journal whose keys and namespaces can be inspected."""

    def usage_of_keys(self) -> list[tuple[KeyUsage, bool]]: ...

    def namespaces(self) -> dict[str, int]: ...

    def has_unknown_keys(self) -> bool: ...

    def move(self, namespace: str) -> int: ...


def get_shared_journal(paywall: Paywall) -> object:
    """The journal of a paywall. Raises `ConfigurationError` for one that only its own process can read."""
    check_shared(paywall.journal, paywall.settings.spell("journal"))
    return paywall.journal


def get_administrable_journal(paywall: Paywall) -> AdministrableJournal:
    """The journal of a paywall. Raises `ConfigurationError` if it cannot be inspected from this process."""
    journal = get_shared_journal(paywall)
    if not isinstance(journal, AdministrableJournal):
        raise ConfigurationError(
            "This journal cannot be inspected: it lacks the methods usage_of_keys, namespaces, "
            "has_unknown_keys and move."
        )
    return journal


def move_rows(paywall: Paywall, address: str) -> int:
    """Move the rows written under a former address of the service; returns how many.

    Only rows of the API key's environment are moved. Raises `ConfigurationError` and `JournalError`.
    """
    journal, settings = get_administrable_journal(paywall), paywall.settings
    former = make_namespace(settings.api_key.environment, address)
    if former == settings.namespace:
        raise ConfigurationError(f"{address} is the current address: {settings.spell('base_url')} names it.")
    return journal.move(former)


def find_problems(paywall: Paywall) -> Iterator[str]:
    """Yield what keeps this process from finding or finishing rows of its journal. Raises `JournalError`."""
    settings = paywall.settings
    return find_journal_problems(paywall.journal, settings.namespace, settings.spell("journal_key"))


def find_journal_problems(
    journal: object, current: str, setting: str = "FAREGATE_JOURNAL_KEY"
) -> Iterator[str]:
    """Yield what keeps a process from finding or finishing rows of a journal in the namespace `current`.

    `setting` is what the seller calls the journal's keys.
    """
    if not isinstance(journal, AdministrableJournal):
        return
    if journal.has_unknown_keys():
        yield (
            "The journal has rows of a key that this process does not have; their payers get 503. Add the "
            f"key after the newest one: in {setting}, or in SECRET_KEY_FALLBACKS for Django's "
            "journal. `faregate journal keys` (Django: `manage.py faregate_journal keys`) shows what each "
            "key is needed for."
        )
    environment = current.partition(" ")[0]
    for namespace, unfinished in journal.namespaces().items():
        other_environment, _, address = namespace.partition(" ")
        if namespace != current and other_environment == environment:
            rows = "1 unfinished row" if unfinished == 1 else f"{unfinished} unfinished rows"
            yield (
                f"The journal has {rows} under another address, {address}. If the service has moved from "
                f"there, run `faregate journal move {address}` (Django: `manage.py faregate_journal move "
                f"{address}`)."
            )
