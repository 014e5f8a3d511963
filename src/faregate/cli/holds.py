"""`holds`: list, show, retry and discard unfinished payments. Encrypted columns are never shown."""

import json as jsonlib
import sys
import time
from typing import Any

from faregate.cli.terminal import format_duration, format_moment, format_size, format_table, prints_json
from faregate.commands import Echo
from faregate.core.claim_types import HoldInfo
from faregate.errors import CommandError
from faregate.journals.payment_info import PaymentInfo, parse_reference
from faregate.maintenance.customer_answers import Explanation, explain, explain_unknown, find_payments
from faregate.maintenance.holds import (
    STUCK,
    HoldList,
    discard,
    get_discardable,
    get_hold_store,
    get_label,
    list_holds,
    retry,
)
from faregate.maintenance.journal import JournalView, find_journal_problems
from faregate.paywall import Paywall

_LIMIT = 1000
_PAGES = 20
"""Payments of one payer that are shown as text."""
_UNKNOWN = 3
"""The exit status when the journal has no such payment."""
_HEAD = ("TRANSACTION", "STATE", "SINCE", "NEXT TRY", "ATTEMPTS", "SIZE", "REASON")
_UNREADABLE = "its journal key is not configured here"


def run_list(
    view: JournalView, echo: Echo, *, all: bool, stuck: bool, unfetched: bool, json: bool, text: bool
) -> int:
    """Print unfinished payments, stuck ones first, and what is wrong with the journal."""
    if all + stuck + unfetched > 1:
        raise CommandError("Use one of --all, --stuck and --unfetched.")
    as_json = prints_json(json, text)
    now = time.time()
    holds = list_holds(view, _LIMIT, now)
    shown = holds.unfetched if unfetched else [*holds.stuck]
    if not (stuck or unfetched):
        shown += [*holds.held, *(holds.running if all else []), *holds.unfetched]
    problems = [] if view.own is None else list(find_journal_problems(view.journal, view.own))
    if as_json:
        echo(_format_list_as_json(holds, shown, problems))
        return 0
    if shown:
        echo(_format_holds(shown, now) + "\n")
    for line in (_summarize(holds), *problems):
        echo(line)
    return 0


def _format_holds(holds: list[HoldInfo], now: float) -> str:
    rows = [_build_row(hold, now) for hold in holds]
    if len({hold.namespace for hold in holds}) == 1:
        return format_table(rows, _HEAD)
    named = [(*row, hold.namespace) for row, hold in zip(rows, holds, strict=True)]
    return format_table(named, (*_HEAD, "ADDRESS"))


def _summarize(holds: HoldList) -> str:
    stuck, held, running = len(holds.stuck), len(holds.held), len(holds.running)
    paid = f" {len(holds.unfetched)} paid and not fetched." if holds.unfetched else ""
    if not stuck + held + running:
        return f"No unfinished payments.{paid}"
    more = f" These are the {_LIMIT} oldest; there may be more." if holds.is_truncated else ""
    return f"{stuck} stuck, {held} held for the sweep, {running} being served now.{paid}{more}"


def _build_row(hold: HoldInfo, now: float) -> tuple[str, ...]:
    return (
        hold.transaction_id,
        get_label(hold),
        format_duration(now - hold.since),
        _format_next_try(hold, now),
        str(hold.attempts),
        format_size(hold.size),
        _format_reason(hold) if hold.readable else _UNREADABLE,
    )


def _format_reason(hold: HoldInfo) -> str:
    return f"kept until {format_moment(hold.kept_until)}" if hold.kept_until else hold.reason or "-"


def _format_next_try(hold: HoldInfo, now: float) -> str:
    if _is_left_alone(hold):
        return "-"
    return "now" if hold.due_at <= now else f"in {format_duration(hold.due_at - now)}"


def _is_left_alone(hold: HoldInfo) -> bool:
    """Whether no sweep works on it."""
    return hold.state == STUCK or hold.kept_until is not None


def _format_list_as_json(holds: HoldList, shown: list[HoldInfo], problems: list[str]) -> str:
    numbers = {"stuck": len(holds.stuck), "held": len(holds.held), "running": len(holds.running)}
    rows = [_to_json(hold) for hold in shown]
    more = {"unfetched": len(holds.unfetched), "more": holds.is_truncated}
    return jsonlib.dumps({**numbers, **more, "problems": problems, "holds": rows}, indent=2)


def _to_json(hold: HoldInfo) -> dict[str, Any]:
    """Times are ISO 8601. `next_try` is null for a payment that no sweep works on."""
    return {
        "transaction_id": hold.transaction_id,
        "revision_id": hold.revision_id,
        "address": hold.namespace,
        "state": hold.state,
        "reason": hold.reason or None,
        "readable": hold.readable,
        "since": format_moment(hold.since),
        "next_try": None if _is_left_alone(hold) else format_moment(hold.due_at),
        "kept_until": _format_maybe(hold.kept_until),
        "attempts": hold.attempts,
        "size": hold.size,
    }


def _format_maybe(moment: float | None) -> str | None:
    return None if moment is None else format_moment(moment)


def run_show(view: JournalView, echo: Echo, *, reference: str, json: bool, text: bool) -> int:
    """Tell what became of a payment, except its proof and its result. Returns 3 if the journal has none."""
    as_json = prints_json(json, text)
    try:
        wanted = parse_reference(reference)
    except ValueError as error:
        raise CommandError(f"{error}.") from None
    lookup = find_payments(view, wanted)
    unknown = None if lookup.payments else explain_unknown(wanted, lookup.unreadable)
    if as_json:
        payments = [_payment_to_json(payment, explain(payment, view)) for payment in lookup.payments]
        answer = {} if unknown is None else unknown._asdict()
        echo(
            jsonlib.dumps({wanted.kind.name.lower(): wanted.value, **answer, "payments": payments}, indent=2)
        )
    elif unknown is not None:
        echo(f"{unknown.summary}\nNext: {unknown.next_step}")
    else:
        now = time.time()
        pages = [_format_page(payment, explain(payment, view), now) for payment in lookup.payments[:_PAGES]]
        echo("\n\n".join(pages))
        if len(lookup.payments) > _PAGES:
            echo(f"\nThese are the {_PAGES} newest of {len(lookup.payments)}; --json prints all.")
    return _UNKNOWN if unknown else 0


def _format_page(payment: PaymentInfo, answer: Explanation, now: float) -> str:
    is_open = payment.kept_until is None
    lines = {
        "transaction": payment.transaction_id,
        "status": payment.status.value.replace("_", " "),
        "request": make_printable(payment.request_line),
        "payer": payment.payer,
        "chain hash": payment.transaction_hash,
        "revision": payment.revision_id,
        "address": payment.namespace,
        "since": f"{format_moment(payment.since)} ({format_duration(now - payment.since)} ago)",
        "ended": _format_maybe(payment.ended_at),
        "kept until": _format_maybe(payment.kept_until),
        "attempts": str(payment.attempts) if is_open else None,
        "result": format_size(payment.size) if payment.size else None,
        "key": None if payment.readable else _UNREADABLE,
    }
    shown = (f"{name:<12} {value}" for name, value in lines.items() if value)
    return "\n".join((answer.summary, f"Next: {answer.next_step}", "", *shown))


def make_printable(text: str) -> str:
    """Escape what a terminal would obey: a stranger chose the URL."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _payment_to_json(payment: PaymentInfo, answer: Explanation) -> dict[str, Any]:
    """Times are ISO 8601. What is not known is null."""
    return {
        "transaction_id": payment.transaction_id or None,
        "status": payment.status.value,
        **answer._asdict(),
        "request": payment.request_line or None,
        "payer": payment.payer or None,
        "transaction_hash": payment.transaction_hash or None,
        "revision_id": payment.revision_id or None,
        "address": payment.namespace,
        "since": format_moment(payment.since),
        "ended_at": _format_maybe(payment.ended_at),
        "kept_until": _format_maybe(payment.kept_until),
        "reason": payment.reason or None,
        "attempts": payment.attempts,
        "redeliveries_left": payment.redeliveries,
        "size": payment.size,
        "readable": payment.readable,
    }


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
    """Discard a stuck or unreadable payment, after a confirmation. Returns 1 if that was declined."""
    if paid and unpaid:
        raise CommandError("Use either --paid or --unpaid.")
    store = get_hold_store(paywall)
    # Check before asking: the sweep ends any other payment.
    hold = get_discardable(store, id)
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
    age = format_duration(time.time() - hold.since)
    if not hold.readable:
        noted = "paid" if paid else "not charged"
        return (
            f"{hold.transaction_id} has been open for {age}: {_UNREADABLE}.\n"
            "If a backup or another process has the key, add it as FAREGATE_JOURNAL_KEY=NEW,OLD instead: "
            f"then nothing is lost.\n{lost}\nThe journal notes it as {noted}. If the "
            "service says that it was paid, refund or serve its payer yourself."
        )
    effect = (
        "Its payer gets 409 proof_already_used and is not asked to pay again. If the payment settles after "
        "all, the payer has paid for nothing: refund or serve them yourself."
        if paid
        else "Its payer may pay again. If this payment settles after all, the payer has paid twice: refund "
        "one of the payments yourself."
    )
    return f"{hold.transaction_id} has been open for {age}: {hold.reason}.\n{lost}\n{effect}"


def _is_interactive() -> bool:
    # A process without a console, such as pythonw, has None for stdin.
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _is_confirmed() -> bool:
    try:
        return input("Discard it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
