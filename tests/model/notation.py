"""Questions and answers in few words, for schedules that people read."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from faregate.core.claim_types import Claimed, Lease, PendingPayment, Recoverable
from faregate.core.models import HandlerResult, Outcome, Response, WorkFailed, WorkSucceeded
from faregate.core.results import AccessPending, CompletionRejected, CompletionUnknown
from tests.model.replies import WELL

_FENCE = re.compile(r"#\d+")


Say = Callable[[str], None]


class Retold:
    """Fences as they first come up, 1, 2, 3: a stored journal draws them at random."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._fences: dict[str, int] = {}

    def __call__(self, line: str) -> None:
        self._say(_FENCE.sub(self._in_order, line))

    def _in_order(self, fence: re.Match[str]) -> str:
        return f"#{self._fences.setdefault(fence[0], len(self._fences) + 1)}"


def in_brief(question: Any, how: Iterable[str]) -> str:
    words = ", ".join(word for word in how if word not in ("", WELL))
    return f"{_asked(question)}{words and f' ({words})'}"


def _asked(question: Any) -> str:
    said = [
        brief(getattr(question, name))
        for name in ("lease", "entry", "outcome", "delivered")
        if hasattr(question, name)
    ]
    return " ".join((type(question).__name__, *said))


def brief(value: Any) -> str:
    match value:
        case Lease(_, fence):
            return f"#{fence}"
        case Claimed(lease):
            return f"Claimed {brief(lease)}"
        case Recoverable(entry):
            return f"Recoverable {brief(entry)}"
        case PendingPayment(lease, outcome=outcome):
            return f"{brief(lease)} {_outcome(outcome)}".rstrip()
        case Response(status, _, body):
            return f"{status} {body[:60].decode(errors='replace')}"
        case HandlerResult(response):
            return f"{response.status}"
        case WorkSucceeded() | WorkFailed():
            return _outcome(value)
        case AccessPending() | CompletionRejected() | CompletionUnknown() | None | bool() | Exception():
            return repr(value)
        case _:
            return _name(value)


def _outcome(outcome: Outcome | None) -> str:
    match outcome:
        case WorkSucceeded(result):
            return f"succeeded with {result.body.decode()!r}"
        case WorkFailed(code):
            return f"failed {code}"
        case None:
            return ""


def _name(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else type(value).__name__
