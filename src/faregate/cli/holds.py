"""`faregate holds`: list unfinished payments, and retry or discard them."""

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from faregate.cli.command import CommandError
from faregate.core.claims import HoldInfo
from faregate.operations.hold_table import Owed, as_json, as_object, as_page, as_table, size, span
from faregate.operations.holds import HoldStore, desk_of, discard, known, known_as_stuck, retry
from faregate.operations.journal_command import find_problems
from faregate.paywall import Paywall

AT_MOST = 1000

Print = Callable[[str], object]


def add_holds(parser: ArgumentParser) -> None:
    """What the command may be called with, wherever it is called from."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_list(actions.add_parser("list", help="what is stuck or held", description="Stuck ones come first."))
    show = actions.add_parser("show", help="one of them", description="Never its proof, never its result.")
    retry = actions.add_parser(
        "retry",
        help="ask the service once more, now",
        description="Asks the service once more how the payment stands, and completes it if it can be. "
        "A result is never released without the service's proof of payment: not on a receipt, and not on "
        "your word. Once it is settled, its payer gets the result with the same payment. "
        "Ends with 0 only when the matter is closed.",
    )
    discard = actions.add_parser(
        "discard",
        help="discard a stuck one",
        description="Discards a stuck one: its result and its proof are lost for ever. The sweep still "
        "works on those that are not stuck, so they are refused.",
    )
    for parser in (show, retry, discard):
        parser.add_argument("id", metavar="ID", help="a transaction: txn_...")
    show.add_argument("--json", action="store_true", help="print JSON instead of text")
    _add_discard(discard)


def _add_list(parser: ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="also those that are being served now")
    which.add_argument("--stuck", action="store_true", help="only those that nothing but a person ends")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_discard(parser: ArgumentParser) -> None:
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--paid",
        action="store_true",
        default=True,
        help="it was charged, or nobody knows: its payer is told 409, not asked to pay again (the default)",
    )
    known.add_argument(
        "--unpaid",
        action="store_false",
        dest="paid",
        help="it is known that nothing was charged: its payer may pay anew",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask whether this is meant")


def run_holds(arguments: Namespace) -> int:
    """`faregate holds`: the journal that the environment names."""
    paywall = Paywall()
    try:
        return hold_as_asked(paywall, arguments, print)
    finally:
        paywall.close()


def hold_as_asked(paywall: Paywall, asked: Namespace, tell: Print) -> int:
    """What the command does, for whoever has a paywall already. Raises `FaregateError` and `CommandError`."""
    desk = desk_of(paywall)
    match asked.action:
        case "list":
            return _list(paywall, desk, asked, tell)
        case "show":
            return _show(desk, asked, tell)
        case "retry":
            said, is_final = retry(paywall, asked.id)
            tell(said)
            return 0 if is_final else 1
        case _:
            return _discard(desk, asked, tell)


def _list(paywall: Paywall, desk: HoldStore, asked: Namespace, tell: Print) -> int:
    now = time.time()
    found = desk.list_holds(AT_MOST)
    owed = Owed.of(found, now)
    shown = [*owed.stuck, *([] if asked.stuck else owed.held), *(owed.running if asked.all else [])]
    more = len(found) == AT_MOST
    if asked.json:
        tell(as_json(shown, owed, more))
        return 0
    if shown:
        tell(f"{as_table(shown, now)}\n")
    tell(_summary(owed) + (f" These are the {AT_MOST} oldest; there may be more." if more else ""))
    for problem in find_problems(paywall):
        tell(problem)
    return 0


def _summary(owed: Owed) -> str:
    if not (owed.stuck or owed.held or owed.running):
        return "Nothing is owed."
    numbers = f"{len(owed.stuck)} stuck, {len(owed.held)} held for the sweep"
    return f"{numbers}, {len(owed.running)} being served now."


def _show(desk: HoldStore, asked: Namespace, tell: Print) -> int:
    one = known(desk, asked.id)
    tell(json.dumps(as_object(one), indent=2) if asked.json else as_page(one, time.time()))
    return 0


def _discard(desk: HoldStore, asked: Namespace, tell: Print) -> int:
    one = known_as_stuck(desk, asked.id)
    if not asked.yes and not _somebody_is_here():
        raise CommandError("Nobody is here to be asked whether this is meant: say --yes.")
    tell(_what_is_lost(one, asked.paid))
    if not asked.yes and not _is_meant():
        tell("Kept.")
        return 1
    discard(desk, asked.id, asked.paid)
    tell("Discarded.")
    return 0


def _what_is_lost(one: HoldInfo, paid: bool) -> str:
    result = (
        f"Its result ({size(one.size)}) and its proof are" if one.size else "It has no result. Its proof is"
    )
    then = (
        "Its payer is told 409 proof_already_used, and is not asked to pay again. If the payment settles "
        "after all, they have paid for nothing: that is yours to make good."
        if paid
        else "Its payer is asked to pay anew. If the payment settles after all, they have paid twice: that "
        "is yours to make good."
    )
    stuck = f"{one.transaction_id} has been open for {span(time.time() - one.since)}: {one.reason}."
    return f"{stuck}\n{result} lost for ever.\n{then}"


def _somebody_is_here() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _is_meant() -> bool:
    try:
        return input("Give it up? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
