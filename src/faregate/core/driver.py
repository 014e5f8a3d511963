"""Drive a generator of steps on what performs them: `drive` blocks, `adrive` awaits.

The flow of a paid request is one, whose steps a backend performs (`core.steps`); the procedures of a stored
journal are others, whose operations rows perform (`journals.operations`).

Both stop at `RunHandler`, the one step that no backend performs: the caller runs the seller's handler, and
drives on with its result, or with the exception that it raised.
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar, cast

from faregate.core.interfaces import Awaiting, Blocking
from faregate.core.models import HandlerResult
from faregate.core.steps import RunHandler

R = TypeVar("R")
B = TypeVar("B", bound=Blocking)
A = TypeVar("A", bound=Awaiting)
S = TypeVar("S")
B_contra = TypeVar("B_contra", contravariant=True)


class Performable(Protocol[B_contra]):
    """A step: `perform` has a backend do it, and gives the answer, or an awaitable of it."""

    def perform(self, backend: B_contra, /) -> Any: ...


def drive(
    flow: Generator[Performable[B], Any, R], backend: B, result: HandlerResult | Exception | None = None
) -> R | RunHandler:
    """Return what the flow returns, or the handler that it waits for.

    `result` is what the handler gave or raised; None starts the flow.
    """
    advance, value = _begin(flow, result)
    paused = False
    # Two separate `try`s: an error of the flow itself must leave, and never be thrown back into it.
    try:
        while True:
            try:
                step = advance(value)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunHandler):
                paused = True
                return step
            try:
                answer: Any = step.perform(backend)
                if hasattr(answer, "__await__"):
                    raise _refuse_awaitable(answer)
                advance, value = flow.send, answer
            except Exception as error:  # a KeyboardInterrupt or a cancellation ends the flow instead
                advance, value = flow.throw, error
    finally:
        # The traceback of an error holds this frame: without `del`, the two keep each other alive.
        del result, value
        if not paused:
            flow.close()


async def adrive(
    flow: Generator[Performable[A], Any, R], backend: A, result: HandlerResult | Exception | None = None
) -> R | RunHandler:
    """Do the same as `drive`, and await each step that is awaitable."""
    advance, value = _begin(flow, result)
    paused = False
    try:
        while True:
            try:
                step = advance(value)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunHandler):
                paused = True
                return step
            try:
                answer: Any = step.perform(backend)
                value = await answer if hasattr(answer, "__await__") else answer
                advance = flow.send
            except Exception as error:
                advance, value = flow.throw, error
    finally:
        del result, value
        if not paused:
            flow.close()


def run(flow: Generator[Performable[B], Any, R], backend: B) -> R:
    """Drive a flow that runs no handler to its end."""
    return cast(R, drive(flow, backend))


async def arun(flow: Generator[Performable[A], Any, R], backend: A) -> R:
    """Drive a flow that runs no handler to its end, awaiting."""
    return cast(R, await adrive(flow, backend))


def _begin(
    flow: Generator[S, Any, Any], result: HandlerResult | Exception | None
) -> tuple[Callable[[Any], S], Any]:
    """How the flow goes on, and with what."""
    return (flow.throw if isinstance(result, Exception) else flow.send), result


def _refuse_awaitable(value: Any) -> TypeError:
    """The error of an awaitable: the types cannot see it in a journal that the seller wrote."""
    getattr(value, "close", lambda: None)()  # or Python warns that it was never awaited
    return TypeError("an async journal or client was given to a blocking application")
