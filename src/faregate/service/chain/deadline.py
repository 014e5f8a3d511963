"""One deadline for many calls to nodes and facilitators, such as all those of one request."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

_DEADLINE: ContextVar[float] = ContextVar("faregate.service.chain.deadline")


@contextmanager
def limit_time(seconds: float) -> Generator[None]:
    """Let the calls that this thread makes in the block take so long together.

    Blocks nest: the earliest deadline counts.
    """
    token = _DEADLINE.set(monotonic() + get_time_left(seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def get_time_left(most: float) -> float:
    """Return how many seconds a call may take, `most` at most; 0 or less if the time is over."""
    end = _DEADLINE.get(None)
    return most if end is None else min(most, end - monotonic())
