"""The states of a checkout, and which of them may follow which: a table. And who answers for its handler."""

from enum import Enum, auto


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
    """The payer's answer is known, and the handler does not run."""
    COMPLETING = auto()
    COMPLETED = auto()
    CLOSED = auto()


TRANSITIONS: dict[State, frozenset[State]] = {
    State.NEW: frozenset((State.SOLD_INSIDE, State.FREE, State.AUTHORIZING, State.DECIDED, State.CLOSED)),
    State.SOLD_INSIDE: frozenset((State.FREE, State.AUTHORIZING, State.DECIDED, State.CLOSED)),
    # An application may send a second start. It is judged like the first, and replaces it.
    State.FREE: frozenset((State.FREE, State.DECIDED, State.CLOSED)),
    # FREE: the journal or the service raised, and the framework answers that.
    State.AUTHORIZING: frozenset((State.AUTHORIZED, State.FREE, State.DECIDED, State.CLOSED)),
    State.AUTHORIZED: frozenset((State.COMPLETING, State.CLOSED)),
    State.DECIDED: frozenset((State.DECIDED, State.CLOSED)),
    State.COMPLETING: frozenset((State.COMPLETED, State.CLOSED)),
    State.COMPLETED: frozenset((State.CLOSED,)),
    State.CLOSED: frozenset((State.CLOSED,)),
}

PASSING = (State.NEW, State.SOLD_INSIDE, State.AUTHORIZING, State.FREE)
"""States in which the application's response leaves unchanged, if `Checkout.allow_unpaid` allows it."""


class Answerer(Enum):
    """Who made the response of a handler that was authorized: only the handler's own may be a result."""

    HANDLER = auto()
    NONE = auto()
    """The handler raised, sent an error or cut its response, and no other was called since."""
    ERROR_HANDLER = auto()
    """Something has answered the exception of the handler."""
