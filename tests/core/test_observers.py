"""Observers of a flow: the seller's logging and `on_event`. Whatever they do, the flow goes on."""

import asyncio
import functools
import gc
import io
import json
import logging
import math
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, get_args
from unittest.mock import AsyncMock

import anyio
import pytest

import faregate
from faregate import Paywall
from faregate.core.claim_types import Lease
from faregate.core.driver import adrive, drive
from faregate.core.flow import serve
from faregate.core.models import Response
from faregate.errors import ConfigurationError
from faregate.events import Event, Refused, Settled
from faregate.journals.heartbeat import Heartbeat
from faregate.logs import Area, log
from faregate.maintenance.sweep_loop import sweep_until
from faregate.observers import EventDispatcher
from tests.core.flow_script import TXN, sale

LOGGERS = [logging.getLogger(f"faregate.{area}") for area in get_args(Area)]


# Logging that raises


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ZeroDivisionError("a handler that raises")


def broken_filter(record: logging.LogRecord) -> bool:
    raise ZeroDivisionError("a filter that raises")


@pytest.fixture(params=["filter", "handler", "handler of the root", "filter of a handler"])
def broken_logging(request: pytest.FixtureRequest) -> Generator[None]:
    # A filter of a logger is asked for what is logged there, not for what its children log.
    everywhere = [logging.getLogger()] if request.param == "handler of the root" else LOGGERS
    handler = logging.StreamHandler(io.StringIO()) if "filter" in request.param else BrokenHandler()
    if request.param == "filter":
        for one in LOGGERS:
            one.addFilter(broken_filter)
    elif request.param == "filter of a handler":
        handler.addFilter(broken_filter)
    for one in everywhere:
        one.addHandler(handler)
    yield
    for one in (*everywhere, *LOGGERS):
        one.removeFilter(broken_filter)
        one.removeHandler(handler)


@pytest.fixture
def unreachable() -> Paywall:
    """A paywall whose service is not there, which every flow notes in the log."""
    return Paywall(base_url="http://127.0.0.1:9", api_key="svc_test_x", environ={})


@pytest.mark.usefixtures("broken_logging")
def test_logging_that_raises_does_not_reach_a_flow(
    unreachable: Paywall, capsys: pytest.CaptureFixture[str]
) -> None:
    end = drive(serve(unreachable.backend, sale(None)))
    assert isinstance(end, Response)
    assert end.status == 503
    assert "nothing can be sold" in capsys.readouterr().err


@pytest.mark.usefixtures("broken_logging")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_logging_that_raises_does_not_reach_an_awaiting_flow(unreachable: Paywall, backend: str) -> None:
    async def go() -> Any:
        end = await adrive(serve(unreachable.async_backend, sale(None)))
        await unreachable.aclose()
        return end

    assert anyio.run(go, backend=backend).status == 503


@pytest.mark.usefixtures("broken_logging")
def test_logging_that_raises_does_not_end_the_renewal_of_leases() -> None:
    class Store:
        def renew(self, owner: str) -> None:
            raise OSError("the store is gone")

        def give_back(self, lease: Lease) -> None:
            raise OSError("the store is gone")

    store = Store()
    heartbeat = Heartbeat(store.renew, store.give_back, math.inf)
    heartbeat.add(b"row", 60.0)
    assert heartbeat.renew_all()
    assert heartbeat.renew_all()


@pytest.mark.usefixtures("broken_logging")
def test_logging_that_raises_does_not_end_the_sweep(
    monkeypatch: pytest.MonkeyPatch, unreachable: Paywall
) -> None:
    walks: list[int] = []

    async def fail(limit: int, should_stop: Callable[[], bool]) -> None:
        walks.append(limit)
        raise OSError("the store is gone")

    monkeypatch.setattr(unreachable, "asweep", fail)

    async def go() -> None:
        ending = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sweep_until, ending, unreachable, 0.0)
            while len(walks) < 3:
                await anyio.sleep(0)
            ending.set()

    anyio.run(go)


def test_every_module_logs_through_what_never_raises() -> None:
    package = Path(faregate.__file__).parent
    own_logging = {"logs.py", "connections.py", "emulator", "rules", "service"}
    found = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in own_logging and "getLogger(" in path.read_text()
    ]
    assert found == []


@pytest.mark.usefixtures("broken_logging")
def test_an_id_of_last_resort_is_kept_when_logging_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ids"
    EventDispatcher(None, str(file)).write_fallback(TXN, "acr_x")
    line = file.read_text().rstrip()
    assert json.loads(line) == {"transaction_id": TXN, "revision_id": "acr_x"}
    # The log did not take it, so it is where an operator may still find it.
    assert line in capsys.readouterr().err


@pytest.mark.usefixtures("broken_logging")
def test_a_listener_and_logging_that_raise(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(event: Event) -> None:
        raise LookupError("a listener that raises")

    EventDispatcher(fail).emit(Settled(TXN))
    assert "a listener that raises" in capsys.readouterr().err


@pytest.mark.usefixtures("broken_logging")
def test_without_a_standard_error_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    EventDispatcher().write_fallback(TXN, "acr_x")


def test_a_file_of_last_resort_whose_name_is_impossible_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    EventDispatcher(None, "ids\0").write_fallback(TXN, "acr_x")
    assert [TXN in record.getMessage() for record in caplog.records] == [True, False]
    assert caplog.records[-1].levelno == logging.CRITICAL


def test_a_record_names_the_code_that_logged_it(caplog: pytest.LogCaptureFixture) -> None:
    EventDispatcher().write_fallback(TXN, "acr_x")
    assert caplog.records[0].funcName == "write_fallback"


# Listeners that would never be awaited


async def listen(event: Event) -> None:
    raise AssertionError("nobody awaits this")


async def listen_in_turn(event: Event) -> AsyncGenerator[None]:
    yield


def listen_lazily(event: Event) -> Generator[None]:
    yield


LAZY: list[Callable[[Event], Any]] = [listen, listen_in_turn, listen_lazily]


class Listening:
    async def __call__(self, event: Event) -> None:
        raise AssertionError("nobody awaits this")

    async def hear(self, event: Event) -> None:
        raise AssertionError("nobody awaits this")


@pytest.mark.parametrize(
    "listener",
    [
        listen,
        listen_in_turn,
        listen_lazily,
        Listening(),
        Listening().hear,
        functools.partial(listen),
        functools.partial(Listening()),
        functools.partial(functools.partial(Listening().hear)),
        AsyncMock(),
    ],
    ids=[
        "function",
        "async generator",
        "generator",
        "object",
        "method",
        "partial",
        "partial of an object",
        "partial of a method",
        "mock",
    ],
)
def test_an_async_listener_is_refused_at_start(listener: Callable[[Event], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"on_event .* plain function"):
        Paywall(base_url="http://127.0.0.1:9", api_key="svc_test_x", environ={}, on_event=listener)


@pytest.mark.parametrize("hidden", [lambda event, called=each: called(event) for each in LAZY])
def test_a_listener_that_gives_something_to_await_is_logged_once(
    hidden: Callable[[Event], Any], caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher = EventDispatcher(hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "was never awaited"
        dispatcher.emit(Settled(TXN))
        dispatcher.emit(Refused(402, "payment_required"))
        gc.collect()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "on_event" in record.getMessage()


def test_each_paywall_logs_its_own_listener(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        EventDispatcher(lambda event: listen(event)).emit(Settled(TXN))
    assert len(caplog.records) == 2


def test_a_listener_may_start_a_task(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    async def go() -> None:
        EventDispatcher(lambda event: asyncio.ensure_future(hear(event))).emit(Settled(TXN))
        await asyncio.sleep(0)

    asyncio.run(go())
    assert heard == [Settled(TXN)]
    assert caplog.records == []


def test_an_awaitable_that_cannot_be_closed_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    class Later(Awaitable[None]):
        def __await__(self) -> Generator[Any, Any, None]:
            raise AssertionError("nobody awaits this")

        def close(self) -> None:
            raise ZeroDivisionError

    EventDispatcher(lambda event: Later()).emit(Settled(TXN))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_plain_listener_may_return_anything(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def hear(result: object, event: Event) -> object:
        heard.append(event)
        return result

    for result in (None, 1, heard, object()):
        EventDispatcher(functools.partial(hear, result)).emit(Settled(TXN))
    assert len(heard) == 4
    assert caplog.records == []


def test_where_logging_is_not_configured_a_warning_has_its_level_and_logger(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log("sale", logging.INFO, "nothing")
    log("sale", logging.WARNING, "what %s", "happened", error=ZeroDivisionError("why"))
    line, *rest = capsys.readouterr().err.splitlines()
    assert line.endswith(" WARNING faregate.sale: what happened")
    assert rest == ["ZeroDivisionError: why"]
    assert not logging.getLogger("faregate").handlers


def test_where_the_seller_wants_no_last_resort_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging, "lastResort", None)
    log("sale", logging.ERROR, "what happened")
    assert capsys.readouterr().err == ""
