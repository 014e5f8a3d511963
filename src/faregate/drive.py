"""Two loops that answer a flow's steps: one blocks, one awaits. One table says who answers what.

Both stop at `RunWork`, the one step that is the adapter's to answer: the caller lets the handler run
and drives on with `resumed(flow, work)` or `raised(flow, error)`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, assert_never, cast

from faregate.model import Work
from faregate.ports import World
from faregate.steps import (
    AnyStep,
    Await,
    CallAccess,
    CallComplete,
    ClaimProof,
    Close,
    CloseExecution,
    Decide,
    Drop,
    FindRules,
    Flow,
    GetStanding,
    Hold,
    Note,
    Release,
    RunWork,
    Start,
    TakeDue,
    Wait,
)

R = TypeVar("R")
Turn = tuple[Callable[[Any], Any], Any]
"""How the flow goes on: `send` or `throw`, and with what."""


def started(flow: Flow[Any]) -> Turn:
    """Drive from the beginning."""
    return flow.send, None


def resumed(flow: Flow[Any], work: Work) -> Turn:
    """Drive on with what the handler gave."""
    return flow.send, work


def raised(flow: Flow[Any], error: Exception) -> Turn:
    """Drive on with what the handler raised."""
    return flow.throw, error


def drive(flow: Flow[R], world: World, turn: Turn) -> R | RunWork:
    """The blocking loop: the flow's end, or the work it waits for."""
    advance, answer = turn
    paused = False
    try:
        while True:
            try:
                step = advance(answer)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunWork):
                paused = True
                return step
            try:
                advance, answer = flow.send, _blocking(_ask(cast(AnyStep, step), world))
            except Exception as error:
                advance, answer = flow.throw, error
    finally:
        del turn, answer  # an error's traceback holds this frame
        if not paused:
            flow.close()


async def adrive(flow: Flow[R], world: World, turn: Turn) -> R | RunWork:
    """The awaiting loop: the same, and one await."""
    advance, answer = turn
    paused = False
    try:
        while True:
            try:
                step = advance(answer)
            except StopIteration as end:
                return cast(R, end.value)
            if isinstance(step, RunWork):
                paused = True
                return step
            try:
                answer = _ask(cast(AnyStep, step), world)
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


def _ask(step: AnyStep, world: World) -> Any:
    """The table. `RunWork` is not in it: the loops give it to the adapter."""
    match step:
        case FindRules(offer):
            return world.rules(offer)
        case CallAccess(sale, rules, proof):
            return world.access(sale, rules, proof)
        case ClaimProof(proof, request):
            return world.journal.claim(proof, request)
        case Start(ticket, transaction_id, revision_id, seconds):
            return world.journal.start(ticket, transaction_id, revision_id, seconds)
        case Decide(ticket, outcome):
            return world.journal.decide(ticket, outcome)
        case CallComplete(entry, outcome):
            return world.complete(entry, outcome)
        case Release(ticket, payment_response):
            return world.journal.release(ticket, payment_response)
        case Drop(ticket):
            return world.journal.drop(ticket)
        case Hold(ticket):
            return world.journal.hold(ticket)
        case Close(ticket, paid):
            return world.journal.close(ticket, paid)
        case Await(ticket, transaction_id, revision_id):
            return world.journal.wait(ticket, transaction_id, revision_id)
        case GetStanding(transaction_id):
            return world.standing(transaction_id)
        case CloseExecution(execution_id, rules, work):
            return world.close_execution(execution_id, rules, work)
        case TakeDue():
            return world.journal.due()
        case Wait(seconds):
            return world.pause(seconds)
        case Note(message, transaction_id):
            return world.note(message, transaction_id)
        case RunWork():
            raise TypeError("RunWork is the adapter's to answer")
        case _:
            assert_never(step)
