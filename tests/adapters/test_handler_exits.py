"""Work that ends in more than an error: no row stays open, every payer is answered, what ended it goes on."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.checkout.shielding import wait_shielded
from faregate.emulator import Emulator, Wallet
from faregate.journals.memory import MemoryJournal
from faregate.starlette import PaywallMiddleware, paid
from tests.adapters.asgi import CONTENT, a_paywall, collect, header, http_scope, never
from tests.audit.purchases import outcomes

End = Callable[[], Awaitable[None]]


class Panic(BaseException):
    """As extensions written in Rust raise when they panic."""


async def panics() -> None:
    raise Panic("a thread panicked")


async def panics_in_a_thread() -> None:
    def work() -> None:
        raise Panic("a thread panicked")

    await anyio.to_thread.run_sync(work)


async def panics_in_a_task() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(panics)
        await anyio.sleep(30)


async def fails_in_a_group() -> None:
    raise BaseExceptionGroup("both", [Panic("a thread panicked"), ValueError("and a value")])


async def exits() -> None:
    raise BaseExceptionGroup("exit", [Panic("exit")])


async def raises_what_asyncio_cancels_with() -> None:
    raise asyncio.CancelledError


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(30)


async def waits_for_what_was_cancelled() -> None:
    other = asyncio.create_task(asyncio.sleep(30))
    await asyncio.sleep(0)
    other.cancel()
    await other


async def groups_what_was_cancelled() -> None:
    raise BaseExceptionGroup("mixed", [asyncio.CancelledError(), Panic("a thread panicked")])


BOTH: dict[str, tuple[End, type[BaseException] | None]] = {
    "a panic": (panics, Panic),
    "a panic in a thread": (panics_in_a_thread, Panic),
    "a panic in a task": (panics_in_a_task, BaseExceptionGroup),
    "a group of both kinds": (fails_in_a_group, BaseExceptionGroup),
    "a group": (exits, BaseExceptionGroup),
    "a cancellation of asyncio": (raises_what_asyncio_cancels_with, None),
}
ASYNCIO: dict[str, tuple[End, type[BaseException] | None]] = {
    "a task that cancels itself": (cancels_itself, asyncio.CancelledError),
    "another task that was cancelled": (waits_for_what_was_cancelled, None),
    "a group with a cancellation": (groups_what_was_cancelled, BaseExceptionGroup),
}
ENDS = [
    *((backend, *case) for backend in ("asyncio", "trio") for case in BOTH.values()),
    *(("asyncio", *case) for case in ASYNCIO.values()),
]
NAMES = [
    *(f"{name} on {backend}" for backend in ("asyncio", "trio") for name in BOTH),
    *(f"{name} on asyncio" for name in ASYNCIO),
]


def decorated(end: End, **settings: Any) -> Any:
    @paid("daily_report", **settings)
    async def endpoint(request: Request) -> Response:
        await end()
        return PlainTextResponse(CONTENT)

    return lambda paywall: Starlette(
        routes=[Route("/", endpoint)], middleware=[Middleware(PaywallMiddleware, paywall)]
    )


def below_middleware(end: End, **settings: Any) -> Any:
    """With a task group between the paywall and the handler."""

    async def passes(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    @paid("daily_report", **settings)
    async def endpoint(request: Request) -> Response:
        await end()
        return PlainTextResponse(CONTENT)

    inside = Middleware(BaseHTTPMiddleware, dispatch=passes)
    return lambda paywall: Starlette(
        routes=[Route("/", endpoint)], middleware=[Middleware(PaywallMiddleware, paywall), inside]
    )


def prefixed(end: End) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await end()

    return lambda paywall: ASGIMiddleware(app, paywall, offers={"/": "daily_report"})


async def sold(
    make: Any, emulator: Emulator, journal: MemoryJournal
) -> tuple[list[Any], BaseException | None]:
    """What is sent for a payment, and what the application raised."""
    paywall = a_paywall(emulator, journal=journal, public_url="https://seller.example")
    app, unpaid, sent = make(paywall), list[Any](), list[Any]()
    await app(http_scope("/"), never, collect(unpaid))
    proof = Wallet().pay(header(unpaid, b"payment-required"))
    raised: BaseException | None = None
    try:
        await app(http_scope("/", proof), never, collect(sent))
    except BaseException as error:
        raised = error
    await wait_shielded()
    return sent, raised


@pytest.mark.parametrize("make", [decorated, prefixed])
@pytest.mark.parametrize(("backend", "end", "kind"), ENDS, ids=NAMES)
def test_work_that_ends_in_more_than_an_error_has_failed(
    backend: str, end: End, kind: type[BaseException] | None, make: Any
) -> None:
    emulator, journal = Emulator(), MemoryJournal()
    sent, raised = anyio.run(sold, make(end), emulator, journal, backend=backend)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (500, "interrupted")
    assert outcomes(emulator) == ["failed"]
    assert journal.list_holds(10) == []
    assert raised is None if kind is None else isinstance(raised, kind)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_so_has_work_in_a_task_of_a_middleware(backend: str) -> None:
    emulator, journal = Emulator(), MemoryJournal()
    sent, _ = anyio.run(sold, below_middleware(panics), emulator, journal, backend=backend)
    assert (sent[0]["status"], outcomes(emulator), journal.list_holds(10)) == (500, ["failed"], [])


# Streams


async def sends_parts_of_a_group(send: Any) -> None:
    given, taken = anyio.create_memory_object_stream[bytes](1)

    async def produce() -> None:
        async with given:
            await given.send(b"part")
            await anyio.sleep(0.01)
            raise RuntimeError("in the middle")

    async with anyio.create_task_group() as tasks, taken:
        tasks.start_soon(produce)
        async for part in taken:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def sends_parts_of_a_group_of_asyncio(send: Any) -> None:
    parts: asyncio.Queue[bytes] = asyncio.Queue()

    async def produce() -> None:
        try:
            await parts.put(b"part")
            await asyncio.sleep(0.01)
            raise RuntimeError("in the middle")
        finally:
            await parts.put(b"")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        while part := await parts.get():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("backend", "sends"),
    [
        ("asyncio", sends_parts_of_a_group),
        ("asyncio", sends_parts_of_a_group_of_asyncio),
        ("trio", sends_parts_of_a_group),
    ],
)
def test_a_stream_whose_task_raises_has_failed(backend: str, sends: Callable[[Any], Awaitable[None]]) -> None:
    """The stream ends as if it were whole before the group cancels who sends it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await sends(send)

    emulator, journal = Emulator(), MemoryJournal()
    make: Any = partial(ASGIMiddleware, app, offers={"/": "daily_report"})
    _, raised = anyio.run(sold, make, emulator, journal, backend=backend)
    assert isinstance(raised, ExceptionGroup)
    assert (outcomes(emulator), journal.list_holds(10)) == (["failed"], [])


# The cut-off


async def makes_its_own_of_the_cut_off() -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise asyncio.CancelledError from None


async def raises_its_own_afterwards() -> None:
    cut_off = False
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        cut_off = True
    if cut_off:
        raise asyncio.CancelledError("of another library")


async def gives_a_cancelled_result() -> None:
    """As a pool does whose workers are cancelled with the one who waits."""
    result = asyncio.get_running_loop().create_future()
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        result.cancel()
    await result


async def waits_for_a_task() -> None:
    """The error that comes out of it is that of the other task."""
    other = asyncio.ensure_future(asyncio.sleep(30))
    try:
        await asyncio.wait([other])
    finally:
        other.cancel()
        await other


async def times_out_in_time() -> None:
    async with asyncio.timeout(30):
        await asyncio.sleep(30)


async def groups_tasks() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.sleep(30))


async def is_shielded_for_a_moment() -> None:
    try:
        await asyncio.sleep(30)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)


@pytest.mark.parametrize(
    "end",
    [
        makes_its_own_of_the_cut_off,
        raises_its_own_afterwards,
        gives_a_cancelled_result,
        waits_for_a_task,
        times_out_in_time,
        groups_tasks,
        is_shielded_for_a_moment,
    ],
)
@pytest.mark.parametrize("make", [decorated, below_middleware])
def test_work_that_is_cut_off_has_failed_whatever_it_makes_of_that(end: End, make: Any) -> None:
    emulator, journal = Emulator(), MemoryJournal()
    began = time.monotonic()
    sent, raised = anyio.run(sold, make(end, max_work_seconds=0.1), emulator, journal)
    # Work that goes on until its own end is refused as well: only the time tells that it was cut off.
    assert time.monotonic() - began < 20
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"]) == (500, "work_timed_out")
    assert (outcomes(emulator), journal.list_holds(10), raised) == (["failed"], [], None)


def test_a_handler_that_cancels_itself_before_its_whole_response_is_not_charged() -> None:
    """The cancellation would otherwise be raised in the completion, and its payer be charged for a 503."""

    async def cancels_itself_and_sends(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await cancels_itself_at_its_next_wait()
        await send({"type": "http.response.body", "body": CONTENT.encode()})

    async def cancels_itself_at_its_next_wait() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    emulator, unpaid, sent = Emulator(), list[Any](), list[Any]()
    app = ASGIMiddleware(cancels_itself_and_sends, a_paywall(emulator), offers={"/": "daily_report"})
    asyncio.run(app(http_scope("/"), never, collect(unpaid)))
    proof = Wallet().pay(header(unpaid, b"payment-required"))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(app(http_scope("/", proof), never, collect(sent)))
    assert (sent[0]["status"], outcomes(emulator)) == (500, ["failed"])


def test_who_cancels_the_request_from_outside_is_not_answered_by_the_work() -> None:
    """The work goes on; whoever waited for it does not."""
    emulator, journal = Emulator(), MemoryJournal()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        await go_on.wait()

    async def main() -> None:
        paywall = a_paywall(emulator, journal=journal, public_url="https://seller.example")
        app, unpaid, sent = decorated(waits)(paywall), list[Any](), list[Any]()
        await app(http_scope("/"), never, collect(unpaid))
        proof = Wallet().pay(header(unpaid, b"payment-required"))
        request = asyncio.create_task(app(http_scope("/", proof), never, collect(sent)))
        await begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert sent == []
        go_on.set()
        await wait_shielded()

    anyio.run(main)
    assert (outcomes(emulator), journal.list_holds(10)) == (["succeeded"], [])
