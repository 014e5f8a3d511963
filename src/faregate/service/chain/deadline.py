"""One deadline for many calls to nodes and facilitators, such as all those of one request."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from time import monotonic
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_DEADLINE: ContextVar[float] = ContextVar("faregate.service.chain.deadline")


class _TimeLimit:
    """A block with a deadline, or what makes a whole function one. Each block needs its own."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._token: Token[float]

    def __enter__(self) -> None:
        self._token = _DEADLINE.set(monotonic() + get_time_left(self._seconds))

    def __exit__(self, *_: object) -> None:
        _DEADLINE.reset(self._token)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> T:
            with _TimeLimit(self._seconds):
                return function(*args, **kwargs)

        return limited


def limit_time(seconds: float) -> _TimeLimit:
    """Let the calls that this thread makes in the block, or the function, take so long together.

    Blocks nest: the earliest deadline counts.
    """
    return _TimeLimit(seconds)


def get_time_left(most: float) -> float:
    """Return how many seconds a call may take, `most` at most; 0 or less if the time is over."""
    end = _DEADLINE.get(None)
    return most if end is None else min(most, end - monotonic())
