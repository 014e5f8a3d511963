"""What every shop of the suite sells, and what its handlers do: plain data, without a framework.

A shop says each `Sold` in its framework's own words, lets `work` decide, and turns the `Answer` into a
response of its framework. Each execution is one line in the file `CONTRACT_LOG`: what truly ran,
in whichever process.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faregate.core import completion
from faregate.core.models import Offer
from faregate.core.reported_values import Payment
from faregate.offers import offer
from faregate.paywall import Paywall
from tests.support.lines import append_line
from tests.support.usage_account import USED

CONTENT = "paid content"
FILE = Path(__file__).with_name("report.txt")
MIB = 1024 * 1024
METHODS = ("GET", "POST")


@dataclass(frozen=True)
class Sold:
    """A paid route: its decoded path, what it sells or the function that chooses that, and its limits."""

    path: str
    sells: Any = "daily_report"
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For frameworks whose routes are named."""
        return self.path.strip("/").replace("/", "_")


CHOICE = "X-Offer"
"""The header that chooses what a request is sold as, of `AMONG`, where it may."""
AMONG = ("daily_report", "text_summary")


def choose(request: Any) -> str | None:
    """Choose by the header of a request of any framework, of a scope, or of an environ."""
    found = read_choice(request)
    if found == "raise":
        raise LookupError("secret")
    return found


def read_choice(request: Any) -> str | None:
    if hasattr(request, "headers"):
        named: str | None = request.headers.get(CHOICE)
        return named
    if "HTTP_X_OFFER" in request:
        return str(request["HTTP_X_OFFER"])
    pairs = dict(request.get("headers", ()))
    return pairs[b"x-offer"].decode() if b"x-offer" in pairs else None


SOLD = (
    Sold("/paid"),
    Sold("/chosen", choose, {"among": AMONG}),
    Sold("/do", limits={"max_result_bytes": 64 * MIB}),
    Sold("/late", "slow_settlement"),
    Sold("/never", "failing_settlement"),
    Sold("/free", "free_notes"),
    Sold("/metered", "token_meter"),
    Sold("/used", USED),
    Sold("/unknown", "no_such_thing"),
    Sold("/small", limits={"max_result_bytes": 100}),
    Sold("/hurried", limits={"max_work_seconds": 0.3}),
    Sold("/prix/été"),
)
ITEM = Sold("/items/")
"""Sold with one more path segment, a parameter."""
MOUNT, INNER = "/mount/inner", Sold("/paid")
"""`INNER` is sold in a sub-application, blueprint or router of its own, below `MOUNT`."""
GROUND, CLOSED = "/ground", "/closed"
"""Prefixes, in the sellers that declare any: one sold as a whole, one where nothing is for sale."""
OFFERS: dict[str, str | Offer] = {GROUND: "daily_report", "/ground/chosen": offer(choose, among=AMONG)}
"""What sellers with prefixes sell below them."""


@dataclass(frozen=True)
class Answer:
    """What a handler answers. `how`: whole, stream, file or redirect."""

    status: int = 200
    chunks: tuple[bytes, ...] = (json.dumps({"result": CONTENT}).encode(),)
    headers: tuple[tuple[str, str], ...] = (("x-own", "1"),)
    media_type: str = "application/json"
    how: str = "whole"
    seconds: float = 0.0
    breaks_off: bool = False
    cookies: tuple[tuple[str, str], ...] = ()
    place: str | None = None
    """Set when something is to be done after the response."""

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def stream(self) -> Iterator[bytes]:
        yield from self.chunks
        if self.breaks_off:
            raise RuntimeError("broke off")

    def later(self) -> None:
        """The background task, or what is done when the response is closed."""
        note("later", self.place or "", None)


class ClosableBody:
    """The body of a streamed answer. Whoever serves it closes it when the response is over, as files are."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __iter__(self) -> Iterator[bytes]:
        return self.answer.stream()

    def close(self) -> None:
        if self.answer.place:
            self.answer.later()


TEXT = "text/plain"
FORGED = (("PAYMENT-RESPONSE", "Zm9yZ2Vk"), ("PAYMENT-REQUIRED", "Zm9yZ2Vk"), ("Cache-Control", "public"))


def work(place: str, what: str, payment: Payment | None, body: bytes = b"", environ: Any = None) -> Answer:
    """Run a handler: one line in the log, then what the query asks for. `environ` is of a WSGI server."""
    note("closed" if place == CLOSED else "work", place, None if payment is None else payment.transaction_id)
    what, _, more = what.partition("-")
    match what:
        case "raise":
            raise ZeroDivisionError("secret")
        case "exit":
            raise SystemExit(5)  # 3 and 4 mean to gunicorn that no worker can start
        case "cancel":
            raise asyncio.CancelledError
        case "status":
            empty = more in ("204", "304")
            return Answer(int(more), (b"" if empty else b"mine",), (("x-mine", "1"), FORGED[0]))
        case "redirect":
            return Answer(303, (b"",), (("location", "/open"),), how="redirect")
        case "stream":
            return Answer(
                chunks=(b"paid ", b"content"), how="stream", breaks_off=more == "raises", media_type=TEXT
            )
        case "file":
            return Answer(chunks=(FILE.read_bytes(),), how="file", media_type=TEXT)
        case "cookies":
            return Answer(headers=FORGED, cookies=(("a", "1"), ("b", "2")))
        case "big":
            return Answer(chunks=tuple(pattern(int(more))), how="stream", media_type=TEXT)
        case "cut":
            return Answer(chunks=(b"paid ", b"content"), headers=(("content-length", more),), how="stream")
        case "sleep":
            return Answer(seconds=float(more))
        case "block":
            time.sleep(float(more))  # also the event loop of an async handler
            return Answer()
        case "report":
            report(payment, more)
            return Answer()
        case "maximum":
            report(payment, more)
            known = None if payment is None else payment.maximum_atomic
            return Answer(chunks=(str(known).encode(),), media_type=TEXT)
        case "later":
            return Answer(place=place)
        case "frame":
            send_frame(environ or {})
            return Answer()
        case "echo":
            return Answer(chunks=(CONTENT.encode(), b": ", body), media_type=TEXT)
        case _:
            return Answer()


def report(payment: Payment | None, written: str) -> None:
    """Report the values of a JSON object, or of each in a list."""
    values = json.loads(written)
    for one in values if isinstance(values, list) else [values]:
        if payment is not None:
            payment.report(one)


def pattern(size: int) -> Iterator[bytes]:
    """`size` bytes of which no two chunks are alike, in pieces of 64 KiB."""
    for at in range(0, size, 65536):
        yield (b"%015d\n" % at * 4096)[: size - at]


FRAME = b"frame with paid content"


def send_frame(environ: Any) -> None:
    """Send over the connection itself, found as websocket libraries find it in the environs of servers."""
    if "eventlet.input" in environ:
        connection = environ["eventlet.input"].get_socket()
    else:
        stream = environ.get("wsgi.input")
        stream = getattr(stream, "rfile", stream)
        sockets = (
            environ.get("werkzeug.socket"),
            environ.get("gunicorn.socket"),
            getattr(getattr(stream, "raw", None), "_sock", None),
        )
        connection = next((one for one in sockets if one is not None), None)
    if connection is not None:
        connection.sendall(FRAME)


# The log


def note(kind: str, place: str, transaction_id: str | None) -> None:
    log = os.environ["CONTRACT_LOG"]
    append_line(log, kind=kind, place=place, transaction=transaction_id, at=time.monotonic())


# The paywall


def timeout() -> float:
    """Short, and the pauses between attempts too: the number of attempts is the same."""
    completion.COMPLETE_PAUSES = (0.02, 0.05)
    return float(os.environ["CONTRACT_TIMEOUT"])


def paywall() -> Paywall:
    """The rest is in the environment, as it would be for any seller."""
    return Paywall(timeout=timeout())
