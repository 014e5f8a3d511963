"""Log one line per sale: on the logger `faregate.sale`, level INFO, as text and as fields."""

import logging
from dataclasses import fields
from enum import StrEnum
from typing import Any

from faregate.events import Event, Failed, Held, Redelivered, Released, Sale, Settled, Stuck
from faregate.logs import get_logger, log


class SaleOutcome(StrEnum):
    """What became of a sale when its request, or a sweep, was done with it."""

    DELIVERED = "delivered"
    """Paid, and the result is on its way to the payer."""
    REDELIVERED = "redelivered"
    """The same result once more, for the same payment."""
    SETTLED = "settled"
    """Paid, and nobody waits for the result: a sweep found out, or there is none."""
    HELD = "held"
    """Not proven yet."""
    FAILED = "failed"
    """Nothing was charged."""
    STUCK = "stuck"
    """Not proven, and an operator has to look."""


EndEvent = Released | Redelivered | Settled | Held | Failed | Stuck
_OUTCOMES: dict[type, SaleOutcome] = {
    Released: SaleOutcome.DELIVERED,
    Redelivered: SaleOutcome.REDELIVERED,
    Settled: SaleOutcome.SETTLED,
    Held: SaleOutcome.HELD,
    Failed: SaleOutcome.FAILED,
    Stuck: SaleOutcome.STUCK,
}


def find_outcome(event: Event) -> tuple[EndEvent, SaleOutcome] | None:
    """Return the event with its outcome if a request or a sweep is done with the sale; else None."""
    if not isinstance(event, EndEvent) or (isinstance(event, Settled) and event.awaited):
        return None  # what is awaited is `Released` next
    return event, _OUTCOMES[type(event)]


class SaleLog:
    """An observer that logs the end of each sale."""

    def __init__(self) -> None:
        self._logger = get_logger("sale")

    def is_listening(self) -> bool:
        return self._logger.isEnabledFor(logging.INFO)

    def receive(self, event: Event) -> None:
        found = find_outcome(event)
        if found is None:
            return
        end, outcome = found
        fields = _list_fields(end, outcome)
        log("sale", logging.INFO, "%s", _format(end, outcome), fields=fields)


def _list_fields(end: EndEvent, outcome: SaleOutcome) -> dict[str, Any]:
    known = {name: value for name in _FIELDS if (value := getattr(end.sale, name)) is not None}
    reason = _find_reason(end)
    return {
        "transaction_id": end.transaction_id,
        "outcome": str(outcome),
        **({"reason": reason} if reason else {}),
        **known,
    }


_FIELDS = tuple(field.name for field in fields(Sale))


def _find_reason(end: EndEvent) -> str:
    match end:
        case Held(_, reason) | Stuck(_, reason):
            return reason
        case Failed(_, code):
            return code
        case _:
            return ""


def _format(end: EndEvent, outcome: SaleOutcome) -> str:
    """One line, such as `sale of text_summary delivered: GET /summary, status 200, 10000 USDC [txn_...]`."""
    sale, reason = end.sale, _find_reason(end)
    parts = [
        reason,
        " ".join(part for part in (sale.method, sale.route) if part),
        f"status {sale.status}" if sale.status else "",
        f"{sale.amount} atomic {sale.asset}" if sale.amount is not None else "",
        *(
            f"{name} {took} ms"
            for name, took in (
                ("access", sale.access_ms),
                ("work", sale.work_ms),
                ("complete", sale.complete_ms),
            )
            if took is not None
        ),
    ]
    what = sale.offer or sale.revision_id or "an unknown offer"
    told = ", ".join(part for part in parts if part)
    return f"sale of {what} {outcome}{': ' if told else ''}{told} [{end.transaction_id}]"
