"""Drive a flow: one loop blocks, one awaits. Each step performs itself on a backend.

Both stop at `RunHandler`, the one step that is the adapter's to answer: the caller lets the handler run
and drives on with `resumed(flow, work)` or `raised(flow, error)`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from faregate.core.interfaces import Backend
from faregate.core.models import HandlerResult
from faregate.core.steps import Flow, RunHandler, Step

R = TypeVar("R")
Turn = tuple[Callable[[Any], Step[Any]], Any]
"""How the flow goes on: `send` or `throw`, and with what."""


def started(flow: Flow[Any]) -> Turn:
    """Drive from the beginning."""
    return flow.send, None


def resumed(flow: Flow[Any], work: HandlerResult) -> Turn:
    """Drive on with what the handler gave."""
    return flow.send, work


def raised(flow: Flow[Any], error: Exception) -> Turn:
    """Drive on with what the handler raised."""
    return flow.throw, error


def drive(flow: Flow[R], world: Backend, turn: Turn) -> R | RunHandler:
    """The blocking loop: the flow's end, or the work it waits for."""
    advance, answer = turn
    paused = False
    try:
        while True:
            try:
                step = advance(answer)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunHandler):
                paused = True
                return step
            try:
                advance, answer = flow.send, _blocking(step.ask(world))
            except Exception as error:
                advance, answer = flow.throw, error
    finally:
        del turn, answer  # an error's traceback holds this frame
        if not paused:
            flow.close()


async def adrive(flow: Flow[R], world: Backend, turn: Turn) -> R | RunHandler:
    """The awaiting loop: the same, and one await."""
    advance, answer = turn
    paused = False
    try:
        while True:
            try:
                step = advance(answer)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunHandler):
                paused = True
                return step
            try:
                answer = cast(Any, step.ask(world))
                advance, answer = flow.send, await answer if hasattr(answer, "__await__") else answer
            except Exception as error:
                advance, answer = flow.throw, error
    finally:
        del turn, answer
        if not paused:
            flow.close()


def _blocking(answer: Any) -> Any:
    if hasattr(answer, "__await__"):
        getattr(answer, "close", lambda: None)()
        raise TypeError("a blocking drive was given an awaiting world")
    return answer
