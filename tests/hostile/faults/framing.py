"""Replies whose bytes are not HTTP, or are HTTP in a way that nobody should write."""

import gzip
import random
from collections.abc import Callable
from functools import cache

from faregate.core.models import Response
from tests.hostile.faults import Wrong
from tests.support.raw_server import Connection, written

Bytes = Callable[[Response], bytes]
MIB = 1024 * 1024


def head(reply: Response, *lines: str, first: str = "") -> bytes:
    """The reply's own head without a length, and some more lines."""
    pairs = (f"{name}: {value}" for name, value in reply.headers)
    return "\r\n".join((first or f"HTTP/1.1 {reply.status} Said", *pairs, *lines, "", "")).encode("latin-1")


def sized(reply: Response, *lines: str, first: str = "") -> bytes:
    return head(reply, f"Content-Length: {len(reply.body)}", *lines, first=first) + reply.body


def chunked(reply: Response, *chunks: bytes) -> bytes:
    return head(reply, "Transfer-Encoding: chunked") + b"".join(chunks)


def chunk(body: bytes) -> bytes:
    return b"%x\r\n" % len(body) + body + b"\r\n"


def with_body(reply: Response, body: bytes, *lines: str) -> bytes:
    return sized(Response(reply.status, reply.headers, body), *lines)


@cache
def gzip_bomb() -> bytes:
    """Return 20 MiB of blanks, compressed: once, as it takes 0.1 s."""
    return gzip.compress(b" " * 20 * MIB)


def trailing(reply: Response) -> bytes:
    """What should be a header comes after the body."""
    late = [pair for pair in reply.headers if pair[0].lower().startswith("payment-")]
    early = tuple(pair for pair in reply.headers if pair not in late)
    trailer = "".join(f"{name}: {value}\r\n" for name, value in late).encode()
    return chunked(Response(reply.status, early), chunk(reply.body), b"0\r\n", trailer, b"\r\n")


def _with_line(connection: str) -> Bytes:
    return lambda reply: sized(reply, connection)


def _with_first(first: str) -> Bytes:
    return lambda reply: sized(reply, first=first)


def _with_length(length: str) -> Bytes:
    return lambda reply: head(reply, f"Content-Length: {length}") + reply.body


LINES = {
    "a header without a colon": "X-Odd",
    "a header without a name": ": odd",
    "a space before the colon": "X-Odd : odd",
    "a NUL in a header": "X-Odd: \x00",
    "a CR in a header": "X-Odd: a\rb",
    "a second, shorter length": "Content-Length: 2",
    "a second, longer length": "Content-Length: 9999",
    "chunks and a length": "Transfer-Encoding: chunked",
    "gzip, it says": "Content-Encoding: gzip",
    "brotli, it says": "Content-Encoding: br",
    "one large header": "X-Large: " + "x" * 2 * MIB,
    "many headers": "\r\n".join(f"X-{number}: x" for number in range(20_000)),
}
FIRST = {
    "four digits": "HTTP/1.1 2000 OK",
    "two digits": "HTTP/1.1 20 OK",
    "a minus": "HTTP/1.1 -200 OK",
    "no status": "HTTP/1.1 OK",
    "HTP": "HTP/1.1 200 OK",
    "ICY": "ICY 200 OK",
    "status 0": "HTTP/1.1 000 OK",
    "status 999": "HTTP/1.1 999 OK",
}
LENGTHS = ("-1", "0x10", "1e3", "", "9" * 30, "999999")

NOT_HTTP: dict[str, Bytes] = {
    "half a head": lambda _: b"HTTP/1.1 200 OK\r\nContent-Le",
    "a short body": lambda reply: written(reply)[:-3],
    "another protocol": lambda _: b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "noise": lambda reply: random.Random(len(reply.body)).randbytes(5000),
    "a body without a head": lambda reply: reply.body,
    "a gzip bomb": lambda reply: with_body(reply, gzip_bomb(), "Content-Encoding: gzip"),
    "gzip, and it does not say so": lambda reply: with_body(reply, gzip.compress(reply.body)),
    "no end of it": lambda reply: with_body(reply, reply.body + b" " * MIB),
    "a bad chunk size": lambda reply: chunked(reply, b"zz\r\n", reply.body),
    "a chunk size below nothing": lambda reply: chunked(reply, b"-5\r\n", reply.body),
    "a chunk size beyond bounds": lambda reply: chunked(reply, b"f" * 17 + b"\r\n", reply.body),
    "half the chunks": lambda reply: chunked(reply, chunk(reply.body[: len(reply.body) // 2])),
    "a longer chunk than said": lambda reply: chunked(reply, b"2\r\n", reply.body, b"\r\n0\r\n\r\n"),
    "an interim and no end": lambda _: b"HTTP/1.1 100 Continue\r\n\r\n",
    **{name: _with_line(connection) for name, connection in LINES.items()},
    **{name: _with_first(first) for name, first in FIRST.items()},
    **{f"length {length!r}": _with_length(length) for length in LENGTHS},
}

ODD: dict[str, Bytes] = {
    "HTTP/1.0": lambda reply: head(reply, first=f"HTTP/1.0 {reply.status} Said") + reply.body,
    "no length": lambda reply: head(reply, "Connection: close") + reply.body,
    "an early hint": lambda reply: b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\n" + written(reply),
    "chunks of one byte": lambda reply: chunked(
        reply, *(chunk(bytes([byte])) for byte in reply.body), b"0\r\n\r\n"
    ),
    "bare newlines": lambda reply: written(reply).replace(b"\r\n", b"\n"),
    "the same length twice": lambda reply: sized(reply, f"Content-Length: {len(reply.body)}"),
    "a folded header": lambda reply: sized(reply, "X-Odd: odd\r\n and more"),
    "HTTP/9.9": lambda reply: sized(reply, first=f"HTTP/9.9 {reply.status} Said"),
    "gzip as a transfer": lambda reply: sized(reply, "Transfer-Encoding: gzip"),
    "said twice": lambda reply: written(reply) * 2,
}
"""To be read as they are, or not at all: what they say is true."""
STAYS = ("an early hint", "chunks of one byte", "the same length twice", "said twice")
"""Of those, where the connection may be used again."""


def says(make: Bytes) -> Wrong:
    """These bytes, and the end of the connection."""

    async def wrong(connection: Connection, reply: Response) -> None:
        await connection.send(make(reply))
        await connection.hang_up()

    return wrong


def goes_on_after(make: Bytes) -> Wrong:
    """These bytes; the connection stays."""

    async def wrong(connection: Connection, reply: Response) -> None:
        await connection.send(make(reply))

    return wrong
