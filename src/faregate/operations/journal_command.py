"""`faregate journal`, also from Flask and Django: the keys of a journal, and the addresses it was used with.

What is wrong with either is said by `find_problems`, which `check`, `sweep` and `holds` call as well.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from faregate.errors import ConfigurationError
from faregate.journals.memory import MemoryJournal
from faregate.journals.store import KeyUsage
from faregate.operations.hold_table import format_moment, format_table
from faregate.paywall import Paywall
from faregate.settings import make_namespace

Print = Callable[[str], object]
_HEAD = ("KEY", "GIVEN HERE", "ROWS", "OWED", "LAST EXPIRES", "")


@runtime_checkable
class AdministrableJournal(Protocol):
    """A journal whose keys and namespaces can be looked at."""

    def usage_of_keys(self) -> list[tuple[KeyUsage, bool]]: ...

    def namespaces(self) -> dict[str, int]: ...

    def has_unknown_keys(self) -> bool: ...

    def move(self, namespace: str) -> int: ...


def add_journal(parser: ArgumentParser) -> None:
    """What the command may be called with, wherever it is called from."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    keys = actions.add_parser(
        "keys",
        help="what each key is still needed for",
        description="Lists the keys that rows are named under: how many rows, how many of them owe "
        "something, and from when on a key is not needed any more.",
    )
    keys.add_argument("--json", action="store_true", help="print JSON instead of text")
    addresses = actions.add_parser(
        "addresses",
        help="what is owed under each address of a service",
        description="Lists the key environments and addresses under which the journal owes something.",
    )
    addresses.add_argument("--json", action="store_true", help="print JSON instead of text")
    move = actions.add_parser(
        "move",
        help="move rows to the address of now",
        description="For a service that moved: moves the rows that were written under its old address, in "
        "the environment of the API key, to the address that FAREGATE_BASE_URL names. Can be repeated. "
        "Stop workers that still use the old address first.",
    )
    move.add_argument("address", metavar="OLD_ADDRESS", help="what FAREGATE_BASE_URL was before")


def run_journal(arguments: Namespace) -> int:
    """`faregate journal`: the journal that the environment names."""
    paywall = Paywall()
    try:
        return administer(paywall, arguments, print)
    finally:
        paywall.close()


def administer(paywall: Paywall, asked: Namespace, tell: Print) -> int:
    """Do what the command does, for whoever has a paywall already. Raises `FaregateError`."""
    journal = _administrable(paywall)
    match asked.action:
        case "keys":
            tell(_describe_keys(journal, for_machines=asked.json))
        case "addresses":
            tell(_describe_addresses(journal, for_machines=asked.json))
        case _:
            moved = _move(paywall, journal, asked.address)
            tell(f"Moved {moved} {'row' if moved == 1 else 'rows'} to {paywall.settings.namespace}.")
    return 0


def find_problems(paywall: Paywall) -> Iterator[str]:
    """What keeps this process from finding or finishing rows of its journal. Raises `JournalError`."""
    journal = paywall.journal
    if not isinstance(journal, AdministrableJournal):
        return
    if journal.has_unknown_keys():
        yield (
            "The journal has rows of a key that this process was not given, and their payers are told 503. "
            "Put the key back, behind the newest one: into FAREGATE_JOURNAL_KEY, or SECRET_KEY_FALLBACKS "
            "for Django's journal. `faregate journal keys` (Django: `manage.py faregate_journal keys`) shows "
            "what each key is needed for."
        )
    here = paywall.settings.namespace
    for namespace, owed in journal.namespaces().items():
        if namespace != here and namespace.partition(" ")[0] == here.partition(" ")[0]:
            address = namespace.partition(" ")[2]
            yield (
                f"Under another address, {address}, the journal owes something for {owed} "
                f"{'row' if owed == 1 else 'rows'}. If the service moved from there, run "
                f"`faregate journal move {address}` (Django: `manage.py faregate_journal move {address}`)."
            )


def _administrable(paywall: Paywall) -> AdministrableJournal:
    journal = paywall.journal
    if isinstance(journal, MemoryJournal):
        raise ConfigurationError(
            "The memory journal has no keys and is in the seller's own process: set FAREGATE_JOURNAL to the "
            "journal that the workers share."
        )
    if not isinstance(journal, AdministrableJournal):
        raise ConfigurationError(
            "This journal cannot be administered: it has no usage_of_keys, namespaces and move."
        )
    return journal


def _describe_keys(journal: AdministrableJournal, *, for_machines: bool) -> str:
    usage = journal.usage_of_keys()
    if for_machines:
        found = [{**used._asdict(), "given": given} for used, given in usage]
        return json.dumps({"keys": found}, indent=2)
    if not usage:
        return "The journal has no rows."
    return format_table([_HEAD, *(_key_row(used, given) for used, given in usage)])


def _key_row(used: KeyUsage, given: bool) -> tuple[str, ...]:
    last = "-" if used.last_expiry is None else format_moment(used.last_expiry)
    advice = "needed until nothing is owed" if used.owed else f"not needed after {last}"
    return used.key_id, "yes" if given else "NO", str(used.rows), str(used.owed), last, advice


def _describe_addresses(journal: AdministrableJournal, *, for_machines: bool) -> str:
    found = journal.namespaces()
    if for_machines:
        return json.dumps({"owed": found}, indent=2)
    if not found:
        return "Nothing is owed."
    return format_table([("OWED", "FOR"), *((str(number), name) for name, number in sorted(found.items()))])


def _move(paywall: Paywall, journal: AdministrableJournal, address: str) -> int:
    settings = paywall.settings
    old = make_namespace(settings.api_key.environment, address)
    if old == settings.namespace:
        raise ConfigurationError(f"{address} is the address of now: FAREGATE_BASE_URL names it.")
    return journal.move(old)
