"""Format unfinished payments as tables and JSON. Nothing encrypted is shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from faregate.core.claims import HoldInfo

STUCK = "stuck"
NO_KEY = "of a journal key that was not given here"
_HEAD = ("TRANSACTION", "STATE", "SINCE", "NEXT LOOK", "ATTEMPTS", "SIZE", "REASON")


@dataclass(frozen=True, slots=True)
class Owed:
    """What was found, sorted by who has to do something: people, the sweep, or nobody yet."""

    stuck: list[HoldInfo]
    held: list[HoldInfo]
    running: list[HoldInfo]
    now: float

    @classmethod
    def of(cls, found: Sequence[HoldInfo], now: float) -> "Owed":
        stuck = [one for one in found if one.state == STUCK]
        running = [one for one in found if _is_being_served(one, now)]
        held = [one for one in found if one not in stuck and one not in running]
        return cls(stuck, held, running, now)


def _is_being_served(one: HoldInfo, now: float) -> bool:
    return one.state not in (STUCK, "waiting") and one.attempts == 0 and one.due_at > now


def as_table(shown: Sequence[HoldInfo], now: float) -> str:
    return format_table([_HEAD, *(_row(one, now) for one in shown)])


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns, the first row as their head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _row(one: HoldInfo, now: float) -> tuple[str, ...]:
    since, look = span(now - one.since), _next_look(one, now)
    reason = (one.reason or "-") if one.readable else NO_KEY
    return one.transaction_id, one.state, since, look, str(one.attempts), size(one.size), reason


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def as_page(one: HoldInfo, now: float) -> str:
    """One row, a line for each thing that is known."""
    lines = {
        "transaction": one.transaction_id,
        "revision": one.revision_id,
        "state": one.state,
        "reason": one.reason or "-",
        **({} if one.readable else {"key": NO_KEY}),
        "since": f"{format_moment(one.since)} ({span(now - one.since)} ago)",
        "next look": _next_look(one, now),
        "attempts": str(one.attempts),
        "size": size(one.size),
    }
    return "\n".join(f"{name:<12} {said}" for name, said in lines.items())


def as_object(one: HoldInfo) -> dict[str, Any]:
    """For machines. Times are ISO 8601; `next_look` is null for what nobody looks at again."""
    return {
        "transaction_id": one.transaction_id,
        "revision_id": one.revision_id,
        "state": one.state,
        "reason": one.reason or None,
        "readable": one.readable,
        "since": format_moment(one.since),
        "next_look": None if one.state == STUCK else format_moment(one.due_at),
        "attempts": one.attempts,
        "size": one.size,
    }


def as_json(shown: Sequence[HoldInfo], owed: Owed, more: bool) -> str:
    """`more`: there are others, younger than all of these."""
    numbers = {"stuck": len(owed.stuck), "held": len(owed.held), "running": len(owed.running), "more": more}
    return json.dumps({**numbers, "holds": [as_object(one) for one in shown]}, indent=2)


def span(seconds: float) -> str:
    """The two coarsest units of it: `12s`, `4m`, `3h 5m`, `2d 4h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole}s"
    if not hours:
        return f"{minutes}m"
    return f"{hours}h {minutes % 60}m" if not days else f"{days}d {hours % 24}h"


def size(number: int) -> str:
    if number < 1000:
        return f"{number} B"
    kilo = number / 1000
    return f"{kilo:.1f} kB" if kilo < 1000 else f"{kilo / 1000:.1f} MB"


def _next_look(one: HoldInfo, now: float) -> str:
    if one.state == STUCK:
        return "-"
    return "now" if one.due_at <= now else f"in {span(one.due_at - now)}"


def format_moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
