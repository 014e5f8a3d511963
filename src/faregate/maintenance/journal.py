"""Look into a journal as an operator, without an API key: its payments in all namespaces, keys and addresses.

Rows that were written under a former address of the service can be moved.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from faregate.core.claim_types import HoldInfo
from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from faregate.journals.payment_info import FoundPayments, PaymentInfo, Reference
from faregate.journals.store import KeyUsage
from faregate.journals.urls import JournalContext, journal_from_url
from faregate.paywall import Paywall
from faregate.settings import SERVICE, load_service, read_journal_settings


class NamespaceView(Protocol):
    """The rows of one namespace."""

    @property
    def namespace(self) -> str: ...

    def list_holds(self, limit: int) -> list[HoldInfo]: ...

    def list_unfetched(self, limit: int) -> list[HoldInfo]: ...

    def find(self, reference: Reference) -> FoundPayments: ...

    def describe(self, key: bytes) -> PaymentInfo: ...


@runtime_checkable
class ReadableJournal(Protocol):
    """A journal whose namespaces an operator can read."""

    def list_namespaces(self) -> list[str]: ...

    def read_namespace(self, namespace: str) -> AbstractContextManager[NamespaceView]: ...


@dataclass(frozen=True, slots=True)
class JournalView:
    """A journal, and the namespace that is looked at first.

    `own` is None where the API key or the address of the service is not set: all namespaces count then.
    """

    journal: ReadableJournal
    own: str | None

    def read_own(self) -> Iterator[NamespaceView]:
        """Read the own namespace; all of them if none is."""
        return self._read(self.journal.list_namespaces() if self.own is None else [self.own])

    def read_others(self) -> Iterator[NamespaceView]:
        others = [] if self.own is None else self.journal.list_namespaces()
        return self._read([name for name in others if name != self.own])

    def _read(self, namespaces: list[str]) -> Iterator[NamespaceView]:
        for namespace in namespaces:
            with self.journal.read_namespace(namespace) as reader:
                yield reader


def make_view(journal: object, own: str | None, setting: str = "FAREGATE_JOURNAL") -> JournalView:
    """Look into this journal. Raises `ConfigurationError` if this process cannot.

    `setting` is what the seller calls it.
    """
    check_shared(journal, setting)
    if not isinstance(journal, ReadableJournal):
        raise ConfigurationError(
            "This journal cannot be inspected: it lacks the methods list_namespaces and read_namespace."
        )
    return JournalView(journal, own)


def is_in_memory(journal: object) -> bool:
    """Whether a journal ends with its process, and is read by no other."""
    return isinstance(journal, MemoryJournal)


def check_shared(journal: object, setting: str) -> None:
    """Refuse a journal that only its own process can read. Raises `ConfigurationError`."""
    if is_in_memory(journal):
        raise ConfigurationError(
            "The memory journal is in the seller's own process, and no other process can read it: "
            f"set {setting} to the journal that the workers share."
        )


@contextmanager
def open_view() -> Generator[JournalView]:
    """Open the journal of the environment's settings. Raises `ConfigurationError`."""
    settings = read_journal_settings(os.environ)
    if os.environ.get("FAREGATE_BASE_URL") == SERVICE and not os.environ.get("FAREGATE_JOURNAL"):
        # Opening it would make an empty one, as in the wrong folder.
        load_service("FAREGATE_BASE_URL").check_exists(settings.journal)
    context = JournalContext(settings.namespace or "", "", settings.policy)
    journal = journal_from_url(settings.journal, settings.keys, context)
    view = make_view(journal, settings.namespace)
    try:
        yield view
    finally:
        disconnect = getattr(journal, "disconnect", None)
        if disconnect is not None:
            disconnect()


@runtime_checkable
class AdministrableJournal(Protocol):
    """A journal whose keys and namespaces can be inspected."""

    def usage_of_keys(self) -> list[tuple[KeyUsage, bool]]: ...

    def namespaces(self) -> dict[str, int]: ...

    def has_unknown_keys(self) -> bool: ...

    def move(self, namespace: str) -> int: ...


def get_shared_journal(paywall: Paywall) -> object:
    """The journal of a paywall. Raises `ConfigurationError` for one that only its own process can read."""
    check_shared(paywall.journal, paywall.settings.name_setting("journal"))
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
    # Only the own environment: a test key must never take over live rows.
    former = replace(settings, base_url=address).namespace
    if former == settings.namespace:
        raise ConfigurationError(
            f"{address} is the current address: {settings.name_setting('base_url')} names it."
        )
    return journal.move(former)


def find_problems(paywall: Paywall) -> Iterator[str]:
    """Yield what keeps this process from finding or finishing rows of its journal. Raises `JournalError`."""
    settings = paywall.settings
    return find_journal_problems(paywall.journal, settings.namespace, settings.name_setting("journal_key"))


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
