"""Look into a journal as an operator: all its namespaces, without an API key."""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from faregate.core.claims import HoldInfo
from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from faregate.journals.payment_info import FoundPayments, PaymentInfo, Reference
from faregate.journals.policy import JournalContext
from faregate.journals.registry import journal_from_url
from faregate.settings import read_journal_settings


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


def check_shared(journal: object, setting: str) -> None:
    """Refuse a journal that only its own process can read. Raises `ConfigurationError`."""
    if isinstance(journal, MemoryJournal):
        raise ConfigurationError(
            "The memory journal is in the seller's own process, and no other process can read it: "
            f"set {setting} to the journal that the workers share."
        )


@contextmanager
def open_view(environ: Mapping[str, str] = os.environ) -> Generator[JournalView]:
    """Open the journal of the environment's settings. Raises `ConfigurationError`."""
    settings = read_journal_settings(environ)
    context = JournalContext(settings.namespace or "", "", settings.policy)
    journal = journal_from_url(settings.journal, settings.keys, context)
    view = make_view(journal, settings.namespace)
    try:
        yield view
    finally:
        disconnect = getattr(journal, "disconnect", None)
        if disconnect is not None:
            disconnect()
