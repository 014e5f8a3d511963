"""Random ASGI applications behind the paywall, in this process: no sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.asgi_responder import find_responder
from faregate.checkout.shielding import wait_shielded
from faregate.offers import offer
from tests.fuzz.programs import BAD_HEADERS, Program, Step, make_middleware, make_program, write
from tests.fuzz.world import SEEN, Answer, Request, World

Scope = dict[str, Any]
Send = Callable[[Any], Awaitable[None]]
OWN = "fuzz"
"""A key in each message of an application: what has none is the paywall's own."""
PATIENCE = 5.0


class Handler:
    """One request to the application of this program."""

    def __init__(self, world: World, request: Request, program: Program, send: Send, left: list[Any]) -> None:
        self.world = world
        self.request = request
        self.program = program
        self.send = send
        self.left = left

    async def __call__(self, scope: Scope, receive: Any) -> None:
        if self.world.is_prefix and (responder := find_responder(scope)) is not None:
            self.world.grant(self.request, responder.checkout.transaction_id)
        await self._run(self.program, scope, receive)

    async def _run(self, program: Program, scope: Scope, receive: Any) -> None:
        for step in program:
            try:
                await self._do(step, scope, receive)
            except BaseException as error:
                is_closed = isinstance(error, GeneratorExit) and step.kind != "raise"
                if is_closed or not step.catches:
                    raise

    async def _do(self, step: Step, scope: Scope, receive: Any) -> None:
        mark, value = self.request.mark, step.value
        match step.kind:
            case "start":
                await self.send(self._start(*value))
            case "body" | "end":
                body = mark("body").encode()
                await self.send(
                    {"type": "http.response.body", "body": body, "more_body": step.kind == "body", OWN: 1}
                )
            case "message":
                await self.send(self._message(value))
            case "require":
                await self._require(scope, *value)
            case "receive":
                async with asyncio.timeout(0):
                    await receive()
            case "raise":
                raise make_error(value)
            case "sleep":
                for _ in range(value):
                    await asyncio.sleep(0)
            case "state":
                scope["state"]["kept"] = mark("state")
            case "context":
                SEEN.set(mark("context"))
            case "offer":
                if self.request.phase == "free":
                    self.request.phase = "asked"
                offer("daily_report")
            case "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            case "spawn":
                task = asyncio.ensure_future(self._run(value[0], scope, receive))
                self.left.append(task)
                if value[1]:
                    await task
            case _:
                pass

    async def _require(self, scope: Scope, how: str, number: int) -> None:
        if self.request.phase == "free":
            self.request.phase = "asked"
        asked = require_payment(scope, self.world.offers[number])
        if how == "forget":
            asked.close()
            return
        if how in ("task", "late"):
            task = asyncio.ensure_future(self._await(asked))
            self.left.append(task)
            if how == "task":
                await task
            return
        await self._await(asked)
        if how == "twice":
            await self._await(require_payment(scope, self.world.offers[number]))

    async def _await(self, asked: Any) -> None:
        payment = await asked
        self.world.grant(self.request, payment.transaction_id)

    def _start(self, status: int, names: tuple[str, ...]) -> Any:
        headers: list[Any] = []
        for name in names:
            if name.isdigit():
                headers.append(BAD_HEADERS[int(name)])
            else:
                headers.append((name.encode(), self.request.mark(name).encode()))
        return {"type": "http.response.start", "status": status, "headers": headers, OWN: 1}

    def _message(self, kind: str) -> Any:
        mark = self.request.mark(kind)
        message: dict[str, Any] = {"type": f"http.response.{kind}", OWN: 1}
        match kind:
            case "pathsend":
                message["path"] = mark
            case "trailers":
                message |= {"headers": [(b"x-trailer", mark.encode())], "more_trailers": False}
            case "early_hint":
                message["links"] = [mark.encode()]
            case "push":
                message |= {"path": mark, "headers": []}
            case _:
                message["info"] = {"mark": mark}
        return message


def make_error(kind: str) -> BaseException:
    match kind:
        case "cancelled":
            return asyncio.CancelledError()
        case "exit":
            return SystemExit(3)
        case "generator":
            return GeneratorExit()
        case "group":
            return ExceptionGroup("several", [ValueError("fuzz"), RuntimeError("fuzz")])
        case "interrupt":
            return KeyboardInterrupt()
        case "stop":
            return StopAsyncIteration()
        case _:
            return ValueError("fuzz")


def wrap(kind: str, app: Any, request_of: Callable[[Scope], Request]) -> Any:
    """Middleware between the paywall and the application."""

    async def run(scope: Scope, receive: Any, send: Send) -> None:
        kept: list[Any] = []

        async def tell(message: Any) -> None:
            is_start = message["type"] == "http.response.start"
            match kind:
                case "duplicate" if is_start:
                    await send(message)
                    await send(dict(message))
                case "twice":
                    await send(message)
                    await send(dict(message))
                case "reorder" | "late start" if is_start and not kept:
                    kept.append(message)
                case "reorder" if kept:
                    await send(message)
                    await send(kept.pop())
                case "buffer":
                    kept.append(message)
                case "status" if is_start:
                    await send({**message, "status": 200})
                case "drop end" if not message.get("more_body", True):
                    pass
                case _:
                    await send(message)

        try:
            await app(scope, receive, tell)
        except BaseException:
            if kind != "swallow":
                raise
            body = request_of(scope).mark("swallowed").encode()
            await send({"type": "http.response.start", "status": 200, "headers": [], OWN: 1})
            await send({"type": "http.response.body", "body": body, OWN: 1})
        finally:
            for message in kept:
                await send(message)

    return run


class Server:
    """The server's side of one request: it notes all that it is given, and refuses what no server sends."""

    def __init__(self, answer: Answer, scope: Scope) -> None:
        self.answer = answer
        self._scope = scope
        self._received = 0

    async def receive(self) -> Any:
        self._received += 1
        if self._received == 1:
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        answer, kind = self.answer, message["type"]
        answer.contexts.append(SEEN.get())
        if OWN not in message:
            self._check_own(message)
        if kind == "http.response.start":
            if answer.status:
                raise RuntimeError("a second start")
            answer.status, answer.state = message["status"], str(self._scope["state"])
            for name, value in message["headers"]:
                answer.headers.append((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")))
        elif kind == "http.response.body":
            if not answer.status or answer.is_whole:
                raise RuntimeError("a body before the start or after the end")
            answer.body += message["body"]
            answer.is_whole = not message.get("more_body", False)
        else:
            answer.body += repr(message).encode()  # whatever it is, it leaves
            raise RuntimeError(f"no {kind} here")

    def _check_own(self, message: Any) -> None:
        answer = self.answer
        if message["type"] == "http.response.start":
            if answer.status:
                answer.wrong.append(f"the paywall starts a second response: {message['status']}")
            for name, value in message["headers"]:
                if name != name.lower() or b"\r" in value or b"\n" in value or not name:
                    answer.wrong.append(f"header {name!r} cannot be sent")
        elif not answer.status or answer.is_whole:
            answer.wrong.append("the paywall's body is before the start or after the end")


class Case:
    """One program, played by a payer of one world."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.world = World(random)
        self.program = make_program(random)
        self.middleware = make_middleware(random)
        self.leaves_at = random.randrange(1, 12) if random.random() < 0.15 else None
        """After how many turns of the loop the payer leaves."""
        self.twins = random.random() < 0.3
        self.left: list[asyncio.Future[Any]] = []

    def __str__(self) -> str:
        world = self.world
        return (
            f"  {'prefix' if world.is_prefix else 'handler'}, billable {world.billable}, faults "
            f"{[rule.fault for rule in world.emulator.faults]}, middleware {self.middleware}, "
            f"payer leaves at {self.leaves_at}, twins {self.twins}\n{write(self.program)}"
        )

    def play(self) -> list[str]:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _loop, _context: None)
        try:
            run = loop.create_task(self._play())
            while not run.done():
                try:
                    loop.run_until_complete(run)
                except (SystemExit, KeyboardInterrupt):
                    continue  # an application ended the process: here it goes on, as its other workers do
            run.result()
        finally:
            loop.close()
        return self.world.wrong

    async def _play(self) -> None:
        world = self.world
        await self._ask(None)
        proof = world.pay(await self._find_price())
        if self.twins:
            await asyncio.gather(self._ask(proof), self._ask(proof), self._ask(None))
        else:
            await self._ask(proof)
        await self._ask(proof)
        world.heal()
        self.leaves_at = None
        for seconds in (300, 300, 300, 600, 1200, 3600):
            world.wait(seconds)
            await self._ask(proof)
            world.stuck |= (await world.paywall.asweep()).stuck.keys()
        await self._end_left()
        world.check_end()

    async def _find_price(self) -> str:
        """What a well-behaved handler beside this one asks for the same resource."""
        world, answer = self.world, Answer(-1, None)
        world.emulator.faults, faults = type(world.emulator.faults)("clean"), world.emulator.faults

        async def app(scope: Scope, _receive: Any, _send: Any) -> None:
            await require_payment(scope, world.offers[0])

        scope = make_scope(None)
        server = Server(answer, scope)
        await PaywallMiddleware(app, world.paywall)(scope, server.receive, server.send)
        world.emulator.faults = faults
        instructions = answer.first("payment-required")
        assert instructions is not None, answer
        return instructions

    async def _ask(self, proof: str | None) -> None:
        world = self.world
        request = world.begin(proof)

        async def app(scope: Scope, receive: Any, send: Send) -> None:
            await Handler(world, request, self.program, send, self.left)(scope, receive)

        inner: Any = app
        for kind in self.middleware:
            inner = wrap(kind, inner, lambda _: request)
        paywall = PaywallMiddleware(inner, world.paywall, offers=world.prefixes)
        answer = Answer(request.number, proof)
        scope = make_scope(proof)
        server = Server(answer, scope)
        SEEN.set("")
        task = asyncio.ensure_future(paywall(scope, server.receive, server.send))
        turns = self.leaves_at
        if turns is not None:
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
        done, _ = await asyncio.wait((task,), timeout=PATIENCE)
        if not done:
            answer.wrong.append("the paywall hangs")
        elif not task.cancelled():
            task.exception()
        if turns is not None:
            # What survives its payer ends before the next request.
            for _ in range(30):
                await asyncio.sleep(0)
        world.check(answer)

    async def _end_left(self) -> None:
        for task in self.left:
            task.cancel()
        await asyncio.gather(*self.left, return_exceptions=True)
        try:
            async with asyncio.timeout(PATIENCE):
                await wait_shielded()
        except TimeoutError:
            self.world.wrong.append("a request goes on for ever")


def make_scope(proof: str | None) -> Scope:
    headers = [(b"host", b"seller.example")]
    if proof is not None:
        headers.append((b"payment-signature", proof.encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https",
        "path": "/sold",
        "raw_path": b"/sold",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "server": ("127.0.0.1", 443),
        "client": ("127.0.0.1", 9),
        "state": {"kept": ""},
        "extensions": {
            f"http.response.{name}": {} for name in ("debug", "pathsend", "trailers", "early_hint", "push")
        },
    }
