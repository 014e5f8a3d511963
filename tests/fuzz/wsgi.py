"""Random WSGI applications behind the paywall, in this process: no sockets."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any

from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, find_checkout, require_payment
from tests.fuzz.programs import Program, Step, make_program, write
from tests.fuzz.world import FORGED, SEEN, Answer, Request, World

PHRASE = "Fuzz"
"""What an application says behind its status: what says something else is the paywall's own."""
BODIES = ("list", "generator", "generator", "generator", "closing", "file", "nothing", "inner")
CLOSES = ("nothing", "nothing", "raise", "require", "write")
MIDDLEWARE = ("start again", "write", "join", "lazy", "swallow", "status")
NAMES = {"x-mark": "X-Mark", "location": "Location", "set-cookie": "Set-Cookie"}
BAD = (
    ("X-A\r\nX-B", "1"),
    ("X-C", "1\r\nSet-Cookie: a=b"),
    ("", "1"),
    ("Content-Length", "3"),
    ("Transfer-Encoding", "chunked"),
    ("Payment-Response", FORGED),
    ("X-Euro", "\u20ac"),
    ("X-None", None),
    ("\u00e9", "1"),
)


class Handler:
    """One request to the application: `head` runs in the call, `tail` while the body is iterated."""

    def __init__(self, case: "Case", request: Request, environ: Any, start_response: Any) -> None:
        self.case = case
        self.world = case.world
        self.request = request
        self.environ = environ
        self.start_response = start_response
        self.write: Callable[[bytes], object] = lambda _chunk: None

    def run(self) -> Any:
        if self.world.is_prefix and (checkout := find_checkout(self.environ)) is not None:
            self.world.grant(self.request, checkout.transaction_id)
        chunks = list(self._run(self.case.head))
        match self.case.body:
            case "list":
                return [*chunks, *self._run(self.case.tail)]
            case "file":
                content = b"".join((*chunks, *self._run(self.case.tail)))
                return self.environ["wsgi.file_wrapper"](BytesIO(content))
            case "nothing":
                return None
            case "closing":
                return Closing(self._iterate(chunks), self._close)
            case _:
                return self._iterate(chunks)

    def _iterate(self, chunks: list[bytes]) -> Iterator[bytes]:
        yield from chunks
        yield from self._run(self.case.tail)

    def _close(self) -> None:
        match self.case.close:
            case "raise":
                raise ValueError("fuzz")
            case "require":
                self._require(0)
            case "write":
                self.write(self.request.mark("close").encode())
            case _:
                pass

    def _run(self, program: Program) -> Iterator[bytes]:
        for step in program:
            try:
                chunk = self._do(step)
            except BaseException:
                if not step.catches:
                    raise
            else:
                if chunk is not None:
                    yield chunk

    def _do(self, step: Step) -> bytes | None:
        mark, value = self.request.mark, step.value
        match step.kind:
            case "start":
                headers = [
                    (NAMES[name], mark(name)) if name in NAMES else BAD[int(name)] for name in value[1]
                ]
                error: tuple[Any, ...] = ((ValueError, ValueError("fuzz"), None),) if step.catches else ()
                self.write = self.start_response(f"{value[0]} {PHRASE}", headers, *error)
            case "body" | "end":
                return mark("body").encode()
            case "message" | "sleep":
                self.write(mark("written").encode())
            case "require":
                self._require(value[1])
                if value[0] == "twice":
                    self._require(value[1])
            case "receive":
                self.environ["wsgi.input"].read()
            case "raise" | "cancel":
                raise make_error(value)
            case "context":
                SEEN.set(mark("context"))
            case "state":
                self.environ["fuzz.state"]["kept"] = mark("state")
            case "offer":
                if self.request.phase == "free":
                    self.request.phase = "asked"
                offer("daily_report")
            case _:
                pass
        return None

    def _require(self, number: int) -> None:
        if self.request.phase == "free":
            self.request.phase = "asked"
        payment = require_payment(self.environ, self.world.offers[number])
        self.world.grant(self.request, payment.transaction_id)


class Closing:
    """A body that is closed."""

    def __init__(self, chunks: Iterator[bytes], close: Callable[[], None]) -> None:
        self._chunks = chunks
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks


def make_error(kind: str | None) -> BaseException:
    match kind:
        case "exit":
            return SystemExit(3)
        case "generator":
            return GeneratorExit()
        case "group":
            return ExceptionGroup("several", [ValueError("fuzz"), RuntimeError("fuzz")])
        case "interrupt":
            return KeyboardInterrupt()
        case _:
            return ValueError("fuzz")


def wrap(kind: str, app: Any, request_of: Callable[[], Request]) -> Any:
    """Middleware between the paywall and the application."""

    def run(environ: Any, start_response: Any) -> Any:
        def start(status: str, headers: Any, *error: Any) -> Any:
            if kind == "status":
                status = f"200 {PHRASE}"
            if kind == "start again":
                start_response(status, headers, *error)
            return start_response(status, headers, *error)

        def later() -> Iterator[bytes]:
            yield from app(environ, start)

        if kind == "lazy":
            return later()
        try:
            body = app(environ, start)
            if kind == "join":
                return [b"".join(body)]
            if kind == "write":
                write = start_response(f"200 {PHRASE}", [])
                for chunk in body:
                    write(chunk)
                return []
        except BaseException:
            if kind != "swallow":
                raise
            start_response(f"200 {PHRASE}", [])
            return [request_of().mark("swallowed").encode()]
        return body

    return run


class Server:
    """The server's side of one request, after PEP 3333's reference server."""

    def __init__(self, answer: Answer, environ: Any) -> None:
        self.answer = answer
        self.environ = environ
        self._start: tuple[str, list[tuple[str, str]]] | None = None
        self._is_own = False

    def serve(self, app: Any) -> None:
        body: Any = ()
        try:
            body = app(self.environ, self.start_response)
            for chunk in body:
                if chunk:
                    self._write(chunk)
            self._write(b"")
            self.answer.is_whole = True
        finally:
            if hasattr(body, "close"):
                body.close()

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        self._is_own = not status.endswith(PHRASE)
        if self._start is not None and (exc_info is None or self.answer.status):
            if self._is_own:
                self.answer.wrong.append(f"the paywall starts a second response: {status}")
            raise AssertionError("a second start")
        self._start = (status, list(headers))
        return self._write

    def _write(self, chunk: bytes) -> None:
        answer = self.answer
        if self._start is None:
            raise AssertionError("a body before the start")
        if not answer.status:
            status, headers = self._start
            answer.status, answer.headers = int(status[:3]), [(name, str(value)) for name, value in headers]
            answer.state = str(self.environ["fuzz.state"])
            if self._is_own:
                for name, value in headers:
                    if not name or "\r" in value or "\n" in value or not (name + value).isascii():
                        answer.wrong.append(f"header {name!r} cannot be sent")
        answer.contexts.append(SEEN.get())
        answer.body += chunk


class Case:
    """One program, played by a payer of one world."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.world = World(random)
        program = make_program(random)
        while any(step.kind == "spawn" for step in program):
            program = make_program(random)
        place = random.choice((0, len(program), random.randrange(len(program) + 1)))
        self.head, self.tail = program[:place], program[place:]
        self.body = random.choice(BODIES)
        self.close = random.choice(CLOSES)
        self.middleware = tuple(random.choice(MIDDLEWARE) for _ in range(random.choice((0, 0, 0, 1, 1, 2))))

    def __str__(self) -> str:
        world = self.world
        return (
            f"  {'prefix' if world.is_prefix else 'handler'}, billable {world.billable}, faults "
            f"{[rule.fault for rule in world.emulator.faults]}, middleware {self.middleware}\n"
            f"  before it returns:\n{write(self.head)}\n  in its body ({self.body}, close: {self.close}):\n"
            f"{write(self.tail)}"
        )

    def play(self) -> list[str]:
        world = self.world
        self._ask(None)
        proof = world.pay(self._find_price())
        self._ask(proof)
        self._ask(proof)
        self._ask(None)
        world.heal()
        for seconds in (300, 300, 300, 600, 1200, 3600):
            world.wait(seconds)
            self._ask(proof)
            world.stuck |= world.paywall.sweep().stuck.keys()
        world.check_end()
        return world.wrong

    def _find_price(self) -> str:
        """What a well-behaved handler beside this one asks for the same resource."""
        world, answer = self.world, Answer(-1, None)
        world.emulator.faults, faults = type(world.emulator.faults)("clean"), world.emulator.faults

        def app(environ: Any, _start_response: Any) -> Any:
            require_payment(environ, world.offers[0])

        Server(answer, make_environ(None)).serve(PaywallMiddleware(app, world.paywall))
        world.emulator.faults = faults
        instructions = answer.first("payment-required")
        assert instructions is not None, answer
        return instructions

    def _ask(self, proof: str | None) -> None:
        world = self.world
        request = world.begin(proof)

        def app(environ: Any, start_response: Any) -> Any:
            return Handler(self, request, environ, start_response).run()

        inner: Any = app
        for kind in self.middleware:
            inner = wrap(kind, inner, lambda: request)
        if self.body == "inner":
            # Hidden in a method: a paywall directly around another one is refused.
            inner = PaywallMiddleware(inner, world.paywall).__call__
        paywall = PaywallMiddleware(inner, world.paywall, offers=world.prefixes)
        answer = Answer(request.number, proof)
        SEEN.set("")
        with suppress(BaseException):  # servers log it, and cut the response or answer 500
            Server(answer, make_environ(proof)).serve(paywall)
        world.check(answer)


def make_environ(proof: str | None) -> Any:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/sold",
        "QUERY_STRING": "",
        "SERVER_NAME": "seller.example",
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "seller.example",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input": BytesIO(),
        "wsgi.errors": None,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "fuzz.state": {"kept": ""},
    }
    if proof is not None:
        environ["HTTP_PAYMENT_SIGNATURE"] = proof
    return environ


class FileWrapper:
    """A server's own."""

    def __init__(self, file: Any, size: int = 8192) -> None:
        self._file = file
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self._file.read(self._size), b"")
