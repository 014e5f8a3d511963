"""`holds`: list, show, retry and discard unfinished payments. Encrypted columns are never shown."""

import json as jsonlib
import sys
import time
from typing import Any

from faregate.cli.command import Echo
from faregate.cli.table import format_duration, format_moment, format_size, format_table
from faregate.core.claims import HoldInfo
from faregate.errors import CommandError
from faregate.maintenance.holds import (
    STUCK,
    HoldList,
    discard,
    get_hold,
    get_hold_store,
    get_label,
    get_stuck,
    list_holds,
    retry,
)
from faregate.maintenance.journal import find_problems
from faregate.paywall import Paywall

_LIMIT = 1000
_HEAD = ("TRANSACTION", "STATE", "SINCE", "NEXT TRY", "ATTEMPTS", "SIZE", "REASON")
_UNREADABLE = "its journal key is not configured here"


def run_list(paywall: Paywall, echo: Echo, *, all: bool, stuck: bool, json: bool) -> int:
    """Print unfinished payments, stuck ones first, and what is wrong with the journal."""
    if all and stuck:
        raise CommandError("Use either --all or --stuck.")
    now = time.time()
    holds = list_holds(paywall, _LIMIT, now)
    shown = [*holds.stuck, *([] if stuck else holds.held), *(holds.running if all else [])]
    if json:
        echo(_format_list_as_json(holds, shown))
        return 0
    if shown:
        echo(format_table([_build_row(hold, now) for hold in shown], _HEAD) + "\n")
    echo(_summarize(holds))
    for problem in find_problems(paywall):
        echo(problem)
    return 0


def _summarize(holds: HoldList) -> str:
    stuck, held, running = len(holds.stuck), len(holds.held), len(holds.running)
    if not stuck + held + running:
        return "No unfinished payments."
    more = f" These are the {_LIMIT} oldest; there may be more." if holds.is_truncated else ""
    return f"{stuck} stuck, {held} held for the sweep, {running} being served now.{more}"


def _build_row(hold: HoldInfo, now: float) -> tuple[str, ...]:
    return (
        hold.transaction_id,
        get_label(hold),
        format_duration(now - hold.since),
        _format_next_try(hold, now),
        str(hold.attempts),
        format_size(hold.size),
        (hold.reason or "-") if hold.readable else _UNREADABLE,
    )


def _format_next_try(hold: HoldInfo, now: float) -> str:
    if hold.state == STUCK:
        return "-"
    return "now" if hold.due_at <= now else f"in {format_duration(hold.due_at - now)}"


def _format_list_as_json(holds: HoldList, shown: list[HoldInfo]) -> str:
    numbers = {"stuck": len(holds.stuck), "held": len(holds.held), "running": len(holds.running)}
    rows = [_to_json(hold) for hold in shown]
    return jsonlib.dumps({**numbers, "more": holds.is_truncated, "holds": rows}, indent=2)


def _to_json(hold: HoldInfo) -> dict[str, Any]:
    """Times are ISO 8601. `next_try` is null for a stuck payment."""
    return {
        "transaction_id": hold.transaction_id,
        "revision_id": hold.revision_id,
        "state": hold.state,
        "reason": hold.reason or None,
        "readable": hold.readable,
        "since": format_moment(hold.since),
        "next_try": None if hold.state == STUCK else format_moment(hold.due_at),
        "attempts": hold.attempts,
        "size": hold.size,
    }


def run_show(paywall: Paywall, echo: Echo, *, id: str, json: bool) -> int:
    """Print all that is known of one payment, except its proof and its result."""
    hold = get_hold(get_hold_store(paywall), id)
    echo(jsonlib.dumps(_to_json(hold), indent=2) if json else _format_page(hold, time.time()))
    return 0


def _format_page(hold: HoldInfo, now: float) -> str:
    lines = {
        "transaction": hold.transaction_id,
        "revision": hold.revision_id,
        "state": get_label(hold),
        "reason": hold.reason or "-",
        **({} if hold.readable else {"key": _UNREADABLE}),
        "since": f"{format_moment(hold.since)} ({format_duration(now - hold.since)} ago)",
        "next try": _format_next_try(hold, now),
        "attempts": str(hold.attempts),
        "size": format_size(hold.size),
    }
    return "\n".join(f"{name:<12} {value}" for name, value in lines.items())


def run_retry(paywall: Paywall, echo: Echo, *, id: str) -> int:
    """Ask the service again. Returns 0 if nothing is left to do."""
    result = retry(paywall, id)
    echo(result.message)
    return 0 if result.is_closed else 1


def run_discard(
    paywall: Paywall,
    echo: Echo,
    *,
    id: str,
    paid: bool,
    unpaid: bool,
    yes: bool,
) -> int:
    """Discard a stuck payment, after a confirmation. Returns 1 if that was declined."""
    if paid and unpaid:
        raise CommandError("Use either --paid or --unpaid.")
    store = get_hold_store(paywall)
    hold = get_stuck(store, id)
    if not yes and not _is_interactive():
        raise CommandError("There is no terminal to confirm this on: add --yes.")
    echo(_describe_loss(hold, paid=not unpaid))
    if not yes and not _is_confirmed():
        echo("Kept.")
        return 1
    discard(store, id, not unpaid)
    echo("Discarded.")
    return 0


def _describe_loss(hold: HoldInfo, *, paid: bool) -> str:
    lost = (
        f"Its result ({format_size(hold.size)}) and its proof will be lost."
        if hold.size
        else "It has no result. Its proof will be lost."
    )
    effect = (
        "Its payer gets 409 proof_already_used and is not asked to pay again. If the payment settles after "
        "all, the payer has paid for nothing: refund or serve them yourself."
        if paid
        else "Its payer may pay again. If this payment settles after all, the payer has paid twice: refund "
        "one of the payments yourself."
    )
    age = format_duration(time.time() - hold.since)
    return f"{hold.transaction_id} has been open for {age}: {hold.reason}.\n{lost}\n{effect}"


def _is_interactive() -> bool:
    # A process without a console, such as pythonw, has None for stdin.
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _is_confirmed() -> bool:
    try:
        return input("Discard it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
