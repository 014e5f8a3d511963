"""The two loops: throw, close, StopIteration, cancellation, and no garbage left behind."""

import ast
import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

import faregate.core.completion
import faregate.core.flow
import faregate.core.recovery
from faregate.core.driver import adrive, drive
from faregate.core.interfaces import Backend
from faregate.core.models import HandlerResult
from faregate.core.steps import Flow, LogWarning, RunHandler, Sleep
from tests.core.flow_script import RESULT, TXN, sale

WORK = HandlerResult(RESULT, {})


class Sleepy:
    """A backend that answers `sleep` as it was told to: with a value, an awaitable or an error."""

    def __init__(self, answer: Callable[[float], Any]) -> None:
        self.sleep = answer
        self.notes: list[str] = []

    def log_warning(self, message: str, _transaction_id: str | None, _setting: str) -> None:
        self.notes.append(message)


def build_backend(answer: Callable[[float], Any] = lambda seconds: seconds * 2) -> Any:
    return cast(Backend, Sleepy(answer))


async def doubled(seconds: float) -> float:
    return seconds * 2


def counting() -> Flow[Any]:
    total = 0.0
    for _ in range(3):
        total += cast(float, (yield from Sleep(1.0))) or 0
    return total


def run_blocking(flow: Flow[Any], answer: Callable[[float], Any] = lambda seconds: seconds * 2) -> Any:
    return drive(flow, build_backend(answer))


def run_awaiting(flow: Flow[Any], answer: Callable[[float], Any] = doubled) -> Any:
    async def main() -> Any:
        return await adrive(flow, build_backend(answer))

    return anyio.run(main)


RUNNERS = [run_blocking, run_awaiting]


@pytest.mark.parametrize("run", RUNNERS)
def test_both_loops_answer_steps_in_order(run: Callable[..., Any]) -> None:
    assert run(counting()) == 6.0


def test_the_awaiting_loop_takes_plain_answers_too() -> None:
    assert run_awaiting(counting(), lambda seconds: seconds) == 3.0


@pytest.mark.filterwarnings("error")
def test_the_blocking_loop_refuses_an_awaiting_backend() -> None:
    with pytest.raises(TypeError, match="given to a blocking application"):
        run_blocking(counting(), doubled)


def failing(_seconds: float) -> Any:
    raise KeyError("no answer")


@pytest.mark.parametrize("run", RUNNERS)
def test_errors_are_thrown_back_into_the_flow(run: Callable[..., Any]) -> None:
    def flow() -> Flow[str]:
        try:
            yield from Sleep(1.0)
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "not thrown"

    assert run(flow(), failing) == "caught no answer"


@pytest.mark.parametrize("run", RUNNERS)
def test_an_error_the_flow_does_not_catch_comes_out_as_itself(run: Callable[..., Any]) -> None:
    with pytest.raises(KeyError, match="no answer"):
        run(counting(), failing)


@pytest.mark.parametrize("run", RUNNERS)
def test_a_backends_stop_iteration_is_not_the_flows_end(run: Callable[..., Any]) -> None:
    def stopping(_seconds: float) -> Any:
        return next(iter(()))

    with pytest.raises(RuntimeError):
        run(counting(), stopping)


def selling() -> Flow[Any]:
    try:
        work = yield from RunHandler(sale(), TXN)
    except ValueError:
        yield from LogWarning("failed")
        raise
    yield from LogWarning("worked")
    return work


def test_both_loops_stop_at_the_work_and_drive_on() -> None:
    async def main() -> Any:
        flow = selling()
        assert isinstance(await adrive(flow, build_backend()), RunHandler)
        return await adrive(flow, build_backend(), WORK)

    flow = selling()
    place = build_backend()
    assert isinstance(drive(flow, place), RunHandler)
    assert drive(flow, place, WORK) == WORK
    assert place.notes == ["worked"]
    assert anyio.run(main) == WORK


def test_the_handlers_error_is_thrown_in_and_comes_out() -> None:
    flow = selling()
    place = build_backend()
    drive(flow, place)
    with pytest.raises(ValueError, match="mine"):
        drive(flow, place, ValueError("mine"))
    assert place.notes == ["failed"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancellation_asks_nothing_more_and_closes_the_flow(backend: str) -> None:
    asked: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield from Sleep(1.0)
            asked.append("more")
            yield from Sleep(1.0)
        finally:
            asked.append("closed")

    async def main() -> None:
        with anyio.move_on_after(0.01):
            running = flow()
            await adrive(running, build_backend(lambda _: anyio.sleep(60)))
        assert asked == ["closed"]

    anyio.run(main, backend=backend)


class Loud(Exception):
    pass


def run_by_hand(flow: Flow[Any], answer: Callable[[float], Any]) -> Any:
    """The awaiting loop without an event loop, which leaves cycles of its own."""
    adrive(flow, build_backend(answer)).send(None)


@pytest.mark.parametrize("run", [run_blocking, run_by_hand])
def test_what_no_flow_may_catch_closes_it(run: Callable[..., Any]) -> None:
    """Somebody may still hold the flow: a signal in the middle is the same case as a crash."""

    def interrupted(_seconds: float) -> Any:
        raise KeyboardInterrupt

    flow = counting()
    with pytest.raises(KeyboardInterrupt):
        run(flow, interrupted)
    assert inspect.getgeneratorstate(flow) == inspect.GEN_CLOSED


@pytest.mark.parametrize("run", [run_blocking, run_by_hand])
def test_no_garbage_is_left(run: Callable[..., Any]) -> None:
    """An uncaught error holds its traceback, which holds the frame: no cycle may hold the error."""

    errors = [Loud()]
    alive = weakref.ref(errors[0])

    def loud(_seconds: float) -> Any:
        raise errors[0]

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(Loud):
            run(counting(), loud)
        errors.clear()
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("module", [faregate.core.flow, faregate.core.recovery, faregate.core.completion])
def test_flows_only_ever_yield_from(module: Any) -> None:
    """A bare yield would make the answer Any; a yield in finally would run on close."""
    tree = ast.parse(inspect.getsource(module))
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.Yield | ast.Await | ast.AsyncFunctionDef)
    ]
    finals = [part for node in ast.walk(tree) if isinstance(node, ast.Try) for part in node.finalbody]
    assert not [node for part in finals for node in ast.walk(part) if isinstance(node, ast.YieldFrom)]
    broad = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not broad
