"""Questions and answers in few words, for schedules that people read."""

from typing import Any

from faregate.answers import AccessPending, Denied, Unproven
from faregate.model import Failed, Outcome, Response, Succeeded, Work
from faregate.records import Entry, Fresh, Owed, Ticket


def asked(question: Any) -> str:
    said = [
        brief(getattr(question, name))
        for name in ("ticket", "entry", "outcome", "delivered")
        if hasattr(question, name)
    ]
    return " ".join((type(question).__name__, *said))


def brief(value: Any) -> str:
    match value:
        case Ticket(_, fence):
            return f"#{fence % 10_000}"
        case Fresh(ticket):
            return f"Fresh {brief(ticket)}"
        case Owed(entry):
            return f"Owed {brief(entry)}"
        case Entry(ticket, outcome=outcome):
            return f"{brief(ticket)} {_outcome(outcome)}".rstrip()
        case Response(status, _, body):
            return f"{status} {body[:60].decode(errors='replace')}"
        case Work(response):
            return f"{response.status}"
        case Succeeded() | Failed():
            return _outcome(value)
        case AccessPending() | Denied() | Unproven() | None | bool() | Exception():
            return repr(value)
        case _:
            return _name(value)


def _outcome(outcome: Outcome | None) -> str:
    match outcome:
        case Succeeded(result):
            return f"succeeded with {result.body.decode()!r}"
        case Failed(code):
            return f"failed {code}"
        case None:
            return ""


def _name(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else type(value).__name__
