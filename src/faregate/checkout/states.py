"""The states of a checkout, and which of them may follow which: a table. And who answers for its handler."""

from enum import Enum, auto
from typing import Final


class State(Enum):
    __hash__ = object.__hash__  # that of Enum is computed from the name, in Python, each time

    NEW = auto()
    """The request has not been decided yet."""
    SOLD_INSIDE = auto()
    """Another paywall, between this one and the handler, sells it."""
    FREE = auto()
    """An unpaid response is being sent."""
    AUTHORIZING = auto()
    """The service is asked whether the handler may run."""
    AUTHORIZED = auto()
    """The handler may run; its response is buffered."""
    DECIDED = auto()
    """The paywall answers by itself: no paid handler starts, and nothing more of the application leaves."""
    COMPLETING = auto()
    COMPLETED = auto()
    CLOSED = auto()


# Python 3.11 takes 0.2 us to find a member in its class, and a request asks for twenty.
NEW: Final = State.NEW
SOLD_INSIDE: Final = State.SOLD_INSIDE
FREE: Final = State.FREE
AUTHORIZING: Final = State.AUTHORIZING
AUTHORIZED: Final = State.AUTHORIZED
DECIDED: Final = State.DECIDED
COMPLETING: Final = State.COMPLETING
COMPLETED: Final = State.COMPLETED
CLOSED: Final = State.CLOSED


TRANSITIONS: dict[State, frozenset[State]] = {
    NEW: frozenset((SOLD_INSIDE, FREE, AUTHORIZING, DECIDED, CLOSED)),
    SOLD_INSIDE: frozenset((FREE, AUTHORIZING, DECIDED, CLOSED)),
    # An application may send a second start. It is judged like the first, and replaces it.
    FREE: frozenset((FREE, DECIDED, CLOSED)),
    # FREE: the journal or the service raised, and the framework answers that.
    AUTHORIZING: frozenset((AUTHORIZED, FREE, DECIDED, CLOSED)),
    AUTHORIZED: frozenset((COMPLETING, CLOSED)),
    DECIDED: frozenset((DECIDED, CLOSED)),
    COMPLETING: frozenset((COMPLETED, CLOSED)),
    COMPLETED: frozenset((CLOSED,)),
    CLOSED: frozenset((CLOSED,)),
}

PASSING = (NEW, SOLD_INSIDE, AUTHORIZING, FREE)
"""States in which the application's response leaves unchanged, if `Checkout.allow_unpaid` allows it."""


class Answerer(Enum):
    """Who made the response of a handler that was authorized: only the handler's own may be a result."""

    HANDLER = auto()
    NONE = auto()
    """The handler raised, sent an error or cut its response, and no other was called since."""
    ERROR_HANDLER = auto()
    """Something has answered the exception of the handler."""
