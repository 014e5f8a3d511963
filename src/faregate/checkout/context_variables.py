"""Hide the context variables of a paid handler from code outside, unless its result is released.

Middleware outside may write them into headers, logs or its own answers.
"""

from collections.abc import Coroutine, Generator, Iterable, Iterator
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_UNSET = object()


@coroutine
def run_in_context(context: Context, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await `work` with each of its steps in `context`. No task is made: cancellation stays as it is."""
    resume = work.send
    value: Any = None
    while True:
        try:
            awaited = context.run(resume, value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            value = yield awaited
            resume = work.send
        except BaseException as error:
            value, resume = error, work.throw


class WorkContext:
    """A copy of the current context, in which the work of one blocking request runs."""

    def __init__(self) -> None:
        self._context = copy_context()
        self.run = self._context.run

    def iterate(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Iterate in the context. Frameworks reset variables there that they set there."""
        iterator = self._context.run(iter, chunks)
        while (chunk := self._context.run(next, iterator, None)) is not None:
            yield chunk

    def adopt(self) -> None:
        """Set the variables that the work has set in the current context too."""
        outside = copy_context()
        for variable, value in self._context.items():
            if outside.get(variable, _UNSET) is not value:
                variable.set(value)
