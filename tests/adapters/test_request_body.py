"""What is read of a request's body before its handler runs, and what is left for the handler."""

import io
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from werkzeug.test import EnvironBuilder, run_wsgi_app

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.asgi import require_payment as arequire_payment
from faregate.checkout.checkout import Checkout, SkipHandler
from faregate.checkout.incoming_request import MAX_COMPARED, comparable_length, read_body
from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware, require_payment
from tests.adapters.asgi import a_paywall
from tests.adapters.django_views import PAYWALL, Site, served

from django.http import HttpRequest, HttpResponse  # isort: skip
from django.urls import path  # isort: skip

from faregate.django import paid  # isort: skip

SOLD = offer("daily_report")


@pytest.fixture
def paywall() -> Paywall:
    return a_paywall(public_url="https://seller.example")


@pytest.mark.parametrize(
    ("declared", "length"),
    [
        ("0", 0),
        (str(MAX_COMPARED), MAX_COMPARED),
        (str(MAX_COMPARED + 1), None),
        ("9" * 5000, None),
        ("-1", None),
        ("1, 1", None),
        ("²", None),
        ("", None),
        (None, None),
    ],
)
def test_only_small_bodies_of_a_declared_length_are_read_ahead(
    declared: str | None, length: int | None
) -> None:
    assert comparable_length(declared) == length


def test_a_body_is_read_whole_and_not_further() -> None:
    stream = io.BytesIO(b"12345 and what follows")
    assert read_body(lambda size: stream.read(min(size, 2)), 5) == b"12345"
    assert stream.read() == b" and what follows"


# WSGI


class Input:
    """A stream that counts how often it is read, and breaks with an `error` or ends when it is empty."""

    def __init__(self, content: bytes = b"", error: Exception | None = None) -> None:
        self.content, self.error, self.reads = io.BytesIO(content), error, 0

    def read(self, size: int = -1) -> bytes:
        self.reads += 1
        found = self.content.read(size)
        if not found and self.error is not None:
            raise self.error
        return found


class Seller:
    """A WSGI application that answers with the body it reads."""

    def __init__(self, paywall: Paywall) -> None:
        self.app = PaywallMiddleware(self.echo, paywall)

    def echo(self, environ: Any, start_response: Any) -> list[bytes]:
        try:
            require_payment(environ, SOLD)
        except SkipHandler as stop:
            start_response(f"{stop.status} Stopped", [])
            return []
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["wsgi.input"].read()]

    def call(self, stream: Input, length: int | None, **said: str) -> tuple[int, bytes, Any]:
        environ = EnvironBuilder(method="POST").get_environ()
        environ.pop("CONTENT_LENGTH", None)
        environ |= {"wsgi.input": stream, **said}
        if length is not None:
            environ["CONTENT_LENGTH"] = str(length)
        chunks, status, headers = run_wsgi_app(self.app, environ, buffered=True)
        return int(status.split()[0]), b"".join(chunks), headers

    def ask(self, stream: Input, length: int | None, proof: str, **said: str) -> tuple[int, bytes]:
        return self.call(stream, length, HTTP_PAYMENT_SIGNATURE=proof, **said)[:2]

    def make_proof(self) -> str:
        stream = Input(b"never read")
        status, _, headers = self.call(stream, 10)
        assert (status, stream.reads) == (402, 0)
        return Wallet().pay(headers["PAYMENT-REQUIRED"])


@pytest.fixture
def seller(paywall: Paywall) -> Seller:
    return Seller(paywall)


def test_wsgi_compares_a_body_that_the_handler_reads(seller: Seller) -> None:
    proof = seller.make_proof()
    assert seller.ask(Input(b"one and more"), 3, proof) == (200, b"one")
    assert seller.ask(Input(b"two"), 3, proof)[0] == 409
    assert seller.ask(Input(b"one"), 3, proof) == (200, b"one")


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset by peer")])
def test_wsgi_runs_nothing_for_a_body_that_ends_early(seller: Seller, error: Exception | None) -> None:
    proof = seller.make_proof()
    status, body = seller.ask(Input(b"12345", error), 10, proof)
    assert (status, b"incomplete_body" in body) == (400, True)
    assert seller.ask(Input(b"1234567890"), 10, proof) == (200, b"1234567890")


@pytest.mark.parametrize("said", [{"HTTP_TRANSFER_ENCODING": "chunked"}, {"SERVER_PROTOCOL": "HTTP/2"}])
def test_wsgi_leaves_a_body_without_a_length_alone(seller: Seller, said: dict[str, str]) -> None:
    proof = seller.make_proof()
    assert seller.ask(Input(b"one"), None, proof, **said) == (200, b"one")
    assert seller.ask(Input(b"two"), None, proof, **said) == (200, b"one")
    assert seller.ask(Input(b"one"), 3, proof) == (200, b"one")


# ASGI


def test_a_body_that_a_task_of_the_framework_takes_is_compared(paywall: Paywall) -> None:
    """Quart reads the body in a task of its own, beside the handler that opens the gate."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        read = list[bytes]()

        async def take() -> None:
            read.append((await receive())["body"])

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await anyio.lowlevel.checkpoint()  # it waits for the body now
            await arequire_payment(scope, SOLD)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"".join(read)})

    anyio.run(send_bodies, ASGIMiddleware(app, paywall), paywall)


@pytest.mark.parametrize("is_chosen", [False, True])
def test_tasks_that_ask_at_once_bind_the_body_once_and_sell_nothing(
    paywall: Paywall, is_chosen: bool
) -> None:
    """The second could bind an empty body: the payment would buy the result with every other body too."""

    async def choose(_scope: object) -> str:
        await anyio.wait_all_tasks_blocked()
        return "daily_report"

    sold = offer(choose, among=("daily_report", "text_summary")) if is_chosen else SOLD
    errors, bodies = list[str](), list[bytes]()
    bind_body = Checkout.bind_body

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        async def ask() -> None:
            try:
                await arequire_payment(scope, sold)
            except ConfigurationError as error:
                errors.append(str(error))
            except SkipHandler:
                pass

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"result"})

    def watch(checkout: Checkout, body: bytes | None) -> None:
        bodies.append(b"" if body is None else body)
        bind_body(checkout, body)

    async def ask_twice() -> None:
        with anyio.fail_after(10):
            seller = ASGIMiddleware(app, paywall)
            _, headers, _ = await call(seller, b"one", b"")
            proof = Wallet().pay(headers[b"payment-required"].decode()).encode()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Checkout, "bind_body", watch)
                status, _, content = await call(seller, b"one", proof)
            assert status == 500
            assert b"result" not in content
            assert (await call(seller, b"two", proof))[0] == 409
        await paywall.aclose()

    anyio.run(ask_twice)
    assert bodies == [b"one"]
    assert all("twice. Ask once, before the work" in error for error in errors)
    assert errors


async def send_bodies(app: Any, paywall: Paywall) -> None:
    with anyio.fail_after(10):
        _, headers, _ = await call(app, b"one", b"")
        proof = Wallet().pay(headers[b"payment-required"].decode()).encode()
        assert (await call(app, b"one", proof))[::2] == (200, b"one")
        assert (await call(app, b"two", proof))[0] == 409
    await paywall.aclose()


async def call(app: Any, body: bytes, proof: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """One request, whose body comes only when everybody waits for it."""
    headers = [(b"content-length", b"%d" % len(body)), *([(b"payment-signature", proof)] if proof else [])]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "http_version": "1.1"}
    sent, came = list[Any](), anyio.Event()

    async def receive() -> Any:
        if came.is_set():
            await anyio.sleep_forever()
        came.set()
        await anyio.wait_all_tasks_blocked()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        await app(scope, receive, send)
    except* SkipHandler:
        pass
    start, *rest = sent
    return start["status"], dict(start["headers"]), b"".join(one.get("body", b"") for one in rest)


# Django

FORM = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n%b\r\n--b--\r\n'
MULTIPART = {"headers": {"Content-Type": "multipart/form-data; boundary=b"}}


@paid("daily_report")
def by_body(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.body)


@paid("daily_report")
def by_stream(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"".join(iter(lambda: request.read(2), b"")))


@paid("daily_report")
def by_upload(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.FILES["f"].read())  # type: ignore[union-attr]


@pytest.fixture(params=["wsgi", "asgi"])
def interface(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def buy(site: Site, body: bytes, **options: Any) -> tuple[str, int, bytes]:
    proof = site.proof("/sold", "POST", content=body, **options)
    answer = site.ask("/sold", proof, "POST", content=body, **options)
    return proof, answer.status_code, answer.content


@pytest.mark.parametrize("view", [by_body, by_stream])
def test_django_views_read_the_body_that_was_compared(interface: str, view: Any) -> None:
    with served(interface, path("sold", view)) as site:
        proof, *answer = buy(site, b"body")
        assert answer == [200, b"body"]
        assert site.ask("/sold", proof, "POST", content=b"ydob").status_code == 409


def test_django_limits_what_it_would_without_a_payment(interface: str) -> None:
    """A small form with a larger file: its limit is not about files."""
    with served(interface, path("sold", by_upload), DATA_UPLOAD_MAX_MEMORY_SIZE=20) as site:
        proof, *answer = buy(site, FORM % (b"x" * 100), **MULTIPART)
        assert answer == [200, b"x" * 100]
        other = site.ask("/sold", proof, "POST", content=FORM % (b"y" * 100), **MULTIPART)
        assert other.status_code == 409


class Reading:
    """Middleware outside that reads the body, in the way that is said in the query."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        if "body" in request.GET:
            assert request.body
        if "form" in request.GET:
            assert request.FILES
        return self.get_response(request)


@pytest.mark.parametrize(("how", "status"), [("body", 409), ("form", 200)])
def test_django_compares_what_middleware_outside_left(interface: str, how: str, status: int) -> None:
    middleware = [f"{__name__}.Reading", PAYWALL]
    with served(interface, path("sold", by_upload), MIDDLEWARE=middleware) as site:
        first = FORM % b"one"
        proof = site.proof(f"/sold?{how}", "POST", content=first, **MULTIPART)
        answers = [
            site.ask(f"/sold?{how}", proof, "POST", content=form, **MULTIPART)
            for form in (first, FORM % b"two")
        ]
        assert (answers[0].status_code, answers[0].content) == (200, b"one")
        assert answers[1].status_code == status


def test_django_reads_nothing_without_a_payment(interface: str) -> None:
    seen = list[bool]()

    def free(request: HttpRequest) -> HttpResponse:
        seen.append(isinstance(vars(request)["_stream"], io.BytesIO))
        return HttpResponse()

    with served(interface, path("free", free)) as site:
        assert site.ask("/free", None, "POST", content=b"body").status_code == 200
    assert seen == [False]
