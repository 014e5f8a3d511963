"""The two loops: throw, close, StopIteration, cancellation, and no garbage left behind."""

import ast
import gc
import inspect
import weakref
from collections.abc import Awaitable, Callable
from functools import reduce
from operator import or_
from typing import Any, cast, get_args, get_origin, get_type_hints

import anyio
import pytest

import faregate.core.completion
import faregate.core.flow
import faregate.core.recovery
import faregate.core.sales
import faregate.core.service_price
from faregate.core.driver import adrive, drive
from faregate.core.interfaces import Backend, Flow, Journal, RunHandler
from faregate.core.models import HandlerResult, HasPayerLeft
from tests.core.flow_script import RESULT, TXN, sale

WORK = HandlerResult(RESULT, {})


class Sleepy:
    """A backend that answers `sleep` as it was told to: with a value, an awaitable or an error."""

    def __init__(self, answer: Callable[[float], Any]) -> None:
        self.sleep = answer
        self.notes: list[str] = []

    def log_warning(self, message: str) -> None:
        self.notes.append(message)


def build_backend(answer: Callable[[float], Any] = lambda seconds: seconds * 2) -> Any:
    return cast(Backend, Sleepy(answer))


async def doubled(seconds: float) -> float:
    return seconds * 2


def counting(backend: Backend) -> Flow[Any]:
    total = 0.0
    for _ in range(3):
        slept: float | None = yield backend.sleep(1.0)
        total += slept or 0
    return total


MakeFlow = Callable[[Backend], Flow[Any]]


def run_blocking(make: MakeFlow, answer: Callable[[float], Any] = lambda seconds: seconds * 2) -> Any:
    return drive(make(build_backend(answer)))


def run_awaiting(make: MakeFlow, answer: Callable[[float], Any] = doubled) -> Any:
    async def main() -> Any:
        return await adrive(make(build_backend(answer)))

    return anyio.run(main)


RUNNERS = [run_blocking, run_awaiting]


@pytest.mark.parametrize("run", RUNNERS)
def test_both_loops_answer_steps_in_order(run: Callable[..., Any]) -> None:
    assert run(counting) == 6.0


def test_the_awaiting_loop_takes_plain_answers_too() -> None:
    assert run_awaiting(counting, lambda seconds: seconds) == 3.0


@pytest.mark.filterwarnings("error")
def test_the_blocking_loop_refuses_an_awaiting_backend() -> None:
    with pytest.raises(TypeError, match="given to a blocking application"):
        run_blocking(counting, doubled)


def failing(_seconds: float) -> Any:
    raise KeyError("no answer")


@pytest.mark.parametrize("run", RUNNERS)
def test_errors_are_thrown_back_into_the_flow(run: Callable[..., Any]) -> None:
    def flow(backend: Backend) -> Flow[str]:
        try:
            yield backend.sleep(1.0)
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "not thrown"

    assert run(flow, failing) == "caught no answer"


@pytest.mark.parametrize("run", RUNNERS)
def test_an_error_the_flow_does_not_catch_comes_out_as_itself(run: Callable[..., Any]) -> None:
    with pytest.raises(KeyError, match="no answer"):
        run(counting, failing)


@pytest.mark.parametrize("run", RUNNERS)
def test_a_backends_stop_iteration_is_not_the_flows_end(run: Callable[..., Any]) -> None:
    def stopping(_seconds: float) -> Any:
        return next(iter(()))

    with pytest.raises(RuntimeError):
        run(counting, stopping)


def selling(backend: Backend) -> Flow[Any]:
    try:
        work: HandlerResult = yield RunHandler(sale(), TXN)
    except ValueError:
        yield backend.log_warning("failed")
        raise
    yield backend.log_warning("worked")
    return work


def test_both_loops_stop_at_the_work_and_drive_on() -> None:
    async def main() -> Any:
        flow = selling(build_backend())
        assert isinstance(await adrive(flow), RunHandler)
        return await adrive(flow, WORK)

    place = build_backend()
    flow = selling(place)
    assert isinstance(drive(flow), RunHandler)
    assert drive(flow, WORK) == WORK
    assert place.notes == ["worked"]
    assert anyio.run(main) == WORK


def test_the_handlers_error_is_thrown_in_and_comes_out() -> None:
    place = build_backend()
    flow = selling(place)
    drive(flow)
    with pytest.raises(ValueError, match="mine"):
        drive(flow, ValueError("mine"))
    assert place.notes == ["failed"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancellation_asks_nothing_more_and_closes_the_flow(backend: str) -> None:
    asked: list[str] = []

    def flow(backend: Backend) -> Flow[None]:
        try:
            yield backend.sleep(1.0)
            asked.append("more")
            yield backend.sleep(1.0)
        finally:
            asked.append("closed")

    async def main() -> None:
        with anyio.move_on_after(0.01):
            running = flow(build_backend(lambda _: anyio.sleep(60)))
            await adrive(running)
        assert asked == ["closed"]

    anyio.run(main, backend=backend)


class Loud(Exception):
    pass


def run_by_hand(make: MakeFlow, answer: Callable[[float], Any]) -> Any:
    """The awaiting loop without an event loop, which leaves cycles of its own."""
    adrive(make(build_backend(answer))).send(None)


@pytest.mark.parametrize("run", [run_blocking, run_by_hand])
def test_what_no_flow_may_catch_closes_it(run: Callable[..., Any]) -> None:
    """Somebody may still hold the flow: a signal in the middle is the same case as a crash."""

    def interrupted(_seconds: float) -> Any:
        raise KeyboardInterrupt

    made = list[Flow[Any]]()

    def make(backend: Backend) -> Flow[Any]:
        made.append(counting(backend))
        return made[0]

    with pytest.raises(KeyboardInterrupt):
        run(make, interrupted)
    assert inspect.getgeneratorstate(made[0]) == inspect.GEN_CLOSED


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
            run(counting, loud)
        errors.clear()
        assert alive() is None
    finally:
        gc.enable()


MODULES = [
    faregate.core.completion,
    faregate.core.flow,
    faregate.core.service_price,
    faregate.core.recovery,
    faregate.core.sales,
]


@pytest.mark.parametrize("module", MODULES)
def test_a_flow_gives_each_answer_the_type_that_the_backend_declares(module: Any) -> None:
    """Type checkers take what is sent into a generator for anything."""
    tree = ast.parse(inspect.getsource(module))
    yields = {node for node in ast.walk(tree) if isinstance(node, ast.Yield)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            types = _list_annotations(module, function)
            for statement in ast.walk(function):
                yields -= _check_statement(module, statement, types)
    assert not [ast.unparse(node) for node in yields], "an answer without a type"


def _list_annotations(module: Any, function: ast.FunctionDef) -> dict[str, Any]:
    """The types of the locals that have one."""
    return {
        node.target.id: eval(ast.unparse(node.annotation), vars(module))
        for node in ast.walk(function)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _check_statement(module: Any, statement: ast.AST, types: dict[str, Any]) -> set[ast.Yield]:
    """Check the answer that a statement takes; return its `yield`."""
    match statement:
        case ast.Expr(value=ast.Yield() as asked):
            return {asked}
        case ast.AnnAssign(target=ast.Name(name), value=value) | ast.Assign([ast.Name(name)], value=value):
            given = value.body if isinstance(value, ast.IfExp) else value
            if isinstance(given, ast.Yield):
                assert types[name] == _get_answer_type(module, given), ast.unparse(statement)
                return {given}
    return set()


def _get_answer_type(module: Any, asked: ast.Yield) -> Any:
    match asked.value:
        case ast.Call(func=ast.Attribute(value=ast.Name("backend"), attr=name)):
            answer = get_type_hints(getattr(Backend, name))["return"]
        case ast.Call(func=ast.Attribute(value=ast.Attribute(ast.Name("backend"), "journal"), attr=name)):
            answer = get_type_hints(getattr(Journal, name))["return"]
        case ast.Call(func=ast.Attribute(value=ast.Name("request"), attr="has_payer_left")):
            answer = get_args(HasPayerLeft)[1]
        case ast.Name("step"):  # `RunHandler`
            return HandlerResult
        case ast.Call(func=ast.Name("write")):  # the parameter of `_write`, which is generic
            return vars(module)["T"]
        case _:
            raise AssertionError(f"not a call of the backend: {ast.unparse(asked)}")
    return reduce(or_, (part for part in get_args(answer) if get_origin(part) is not Awaitable))


@pytest.mark.parametrize("module", MODULES)
def test_flows_are_plain_generators_that_let_the_end_pass(module: Any) -> None:
    """A yield in finally would run on close."""
    tree = ast.parse(inspect.getsource(module))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    finals = [part for node in ast.walk(tree) if isinstance(node, ast.Try) for part in node.finalbody]
    asked = [
        node for part in finals for node in ast.walk(part) if isinstance(node, ast.Yield | ast.YieldFrom)
    ]
    assert not asked
    broad = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not broad
