"""Which requests ask for the connection itself, and what the input of a paid WSGI handler is."""

from io import BytesIO
from typing import Any
from wsgiref.util import FileWrapper

import pytest

from faregate.checkout.asgi_scope import parse_scope
from faregate.checkout.wsgi_environ import parse_environ, withhold_connection

KEY, VERSION = "Sec-WebSocket-Key", "Sec-WebSocket-Version"
REQUESTS: list[tuple[bool, str, tuple[tuple[str, str], ...]]] = [
    (True, "GET", (("Connection", "Upgrade"), ("Upgrade", "websocket"), (KEY, "a"), (VERSION, "13"))),
    (True, "GET", (("Upgrade", "websocket"),)),
    (True, "GET", (("Upgrade", "WebSocket"),)),
    (True, "POST", (("Upgrade", "h2c, websocket"),)),
    (True, "GET", (("Upgrade", "websocket/13"),)),
    (True, "GET", (("Upgrade", "mine"),)),
    (True, "GET", ((KEY, "a"),)),
    (True, "GET", ((VERSION, "13"),)),
    (True, "CONNECT", ()),
    (True, "connect", ()),
    (False, "GET", ()),
    (False, "GET", (("Connection", "Upgrade"),)),
    (False, "GET", (("Upgrade", ""),)),
    (False, "GET", (("Upgrade-Insecure-Requests", "1"),)),
    (False, "GET", (("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"))),
    (False, "GET", (("Upgrade", "HTTP/2.0, TLS/1.2 , H2C"),)),
]


@pytest.mark.parametrize(("expected", "method", "headers"), REQUESTS)
def test_a_request_for_the_connection_is_recognized(
    expected: bool, method: str, headers: tuple[tuple[str, str], ...]
) -> None:
    raw = tuple((name.encode(), value.encode()) for name, value in headers)
    scope: dict[str, Any] = {"type": "http", "method": method, "path": "/"}
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": "/"}
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers}
    lowered = tuple((name.lower(), value) for name, value in raw)
    asked = [parse_scope(scope, raw), parse_scope(scope, lowered), parse_environ(environ, "http", "0")]
    assert [one.is_upgrade for one in asked] == [expected] * 3


def test_two_lines_of_a_header_are_read_as_one() -> None:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/"}
    assert parse_scope(scope, ((b"upgrade", b"h2c"), (b"upgrade", b"websocket"))).is_upgrade


class ServerStream(BytesIO):
    """Leads to the socket, and sends by itself, as the streams of servers do."""

    raw = rfile = socket = "the socket"

    def get_socket(self) -> str:
        return self.socket


def test_the_input_is_what_wsgi_names_and_no_more() -> None:
    environ: dict[str, Any] = {"wsgi.input": ServerStream(b"one\ntwo\nthree\nfour\nfive\nsix")}
    withhold_connection(environ)
    withhold_connection(environ)  # as two paywalls do, one inside the other
    stream = environ["wsgi.input"]
    assert {name for name in dir(stream) if not name.startswith("_")} == {"read", "readline", "readlines"}
    assert (stream.read(4), stream.readline(), stream.readline(2)) == (b"one\n", b"two\n", b"th")
    assert (next(iter(stream)), stream.readlines(1), list(stream)) == (
        b"ree\n",
        [b"four\n"],
        [b"five\n", b"six"],
    )
    assert stream.read() == b""


def test_a_body_that_was_read_ahead_stays_as_it_is() -> None:
    environ: dict[str, Any] = {"wsgi.input": (body := BytesIO(b"body"))}
    withhold_connection(environ)
    assert environ["wsgi.input"] is body


class Connection:
    def sendall(self, data: bytes) -> None: ...


def test_what_a_server_could_send_with_is_withheld_and_what_middleware_set_is_not() -> None:
    """Of a server also what it comes to have in a later version: PEP 3333 names what a handler needs."""
    sends = {
        "gunicorn.http2.send_trailers": print,
        "gunicorn.later": print,
        "waitress.client_disconnected": print,
        "wsgi.early_hints": print,
        "anything": Connection(),
    }
    kept: dict[str, Any] = {
        "wsgi.errors": print,
        "wsgi.file_wrapper": FileWrapper,
        "wsgi.multithread": True,
        "wsgi.input_terminated": True,
        "wsgi.version": (1, 0),
        "gunicorn.http2.priority_weight": 3,
        "uwsgi.node": b"node",
        "beaker.get_session": print,
        "werkzeug.debug.preserve_context": print,
        "HTTP_HOST": "seller.example",
    }
    environ: dict[str, Any] = {**kept, **sends}
    withhold_connection(environ)
    assert environ == kept
