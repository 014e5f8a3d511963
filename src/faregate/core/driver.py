"""Drive a flow: `drive` for one whose backend blocks, `adrive` for one whose backend may have to be awaited.

The flow of a paid request is one (`core.flow`); the procedures of a stored journal are others
(`journals.procedures`).

Both stop at `RunHandler`, the one thing that no backend does: the caller runs the seller's handler, and
drives on with its result, or with the exception that it raised.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

from faregate.core.interfaces import Flow, RunHandler
from faregate.core.models import HandlerResult

P = ParamSpec("P")
R = TypeVar("R")


def drive(flow: Flow[R], result: HandlerResult | Exception | None = None) -> R | RunHandler:
    """Return what the flow returns, or the handler that it waits for.

    `result` is what the handler gave or raised; None starts the flow.
    """
    send: Callable[[Any], Any] = flow.send
    advance = flow.throw if isinstance(result, Exception) else send
    value: Any = result
    paused = False
    try:
        while True:
            try:
                answer = advance(value)
            except StopIteration as end:
                returned: R = end.value
                return returned
            if isinstance(answer, RunHandler):
                paused = True
                return answer
            if hasattr(answer, "__await__"):
                advance, value = flow.throw, _refuse_awaitable(answer)
            else:
                advance, value = send, answer
    finally:
        # The traceback of an error holds this frame: without `del`, the two keep each other alive.
        del result, value
        if not paused:
            flow.close()


async def adrive(flow: Flow[R], result: HandlerResult | Exception | None = None) -> R | RunHandler:
    """Do the same as `drive`, and await each answer that is awaitable."""
    send: Callable[[Any], Any] = flow.send
    advance = flow.throw if isinstance(result, Exception) else send
    value: Any = result
    paused = False
    # Two separate `try`s: an error of the flow itself must leave, and never be thrown back into it.
    try:
        while True:
            try:
                answer = advance(value)
            except StopIteration as end:
                returned: R = end.value
                return returned
            if isinstance(answer, RunHandler):
                paused = True
                return answer
            try:
                value = await answer if hasattr(answer, "__await__") else answer
                advance = send
            except Exception as error:  # a KeyboardInterrupt or a cancellation ends the flow instead
                advance, value = flow.throw, error
    finally:
        del result, value
        if not paused:
            flow.close()


def run(flow: Flow[R]) -> R:
    """Drive a flow that runs no handler to its end."""
    return cast(R, drive(flow))


def arun(flow: Flow[R]) -> Coroutine[Any, Any, R]:
    """Drive a flow that runs no handler to its end, awaiting."""
    return cast("Coroutine[Any, Any, R]", adrive(flow))


def awaiting(make_flow: Callable[P, Flow[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a function that drives a flow of these arguments to its end, awaiting."""
    return lambda *args, **kwargs: arun(make_flow(*args, **kwargs))


def _refuse_awaitable(value: Any) -> TypeError:
    """The error of an awaitable: the types cannot see it in a journal that the seller wrote."""
    getattr(value, "close", lambda: None)()  # or Python warns that it was never awaited
    return TypeError("an async journal or client was given to a blocking application")
