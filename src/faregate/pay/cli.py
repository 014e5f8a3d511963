"""`faregate pay`: reads what was asked for, runs the errand, hands out the result."""

import json
import os
import sys
import time
from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING

from faregate.core.models import Header, Response
from faregate.errors import ConfigurationError
from faregate.operations.app_loader import WrongCall
from faregate.pay.extra import need_extra
from faregate.pay.http import Purchase, Shop
from faregate.pay.output import Step

if TYPE_CHECKING:
    from faregate.pay.payment_file import Keeper


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def run_pay(arguments: Namespace) -> int:
    """The exit code (docs/pay.md). Raises `FaregateError`, `WrongCall` and `ImportError`."""
    need_extra()
    from faregate.pay.keys import payer_key
    from faregate.pay.payment_file import Keeper
    from faregate.pay.purchase import Errand, Exit
    from faregate.pay.talk import Talk
    from faregate.pay.wallet import Purse

    purchase = _purchase(arguments)
    key = payer_key(arguments.payer, arguments.key_file, os.environ)
    purse = Purse(key, arguments.max, live=arguments.live)
    _check_output(arguments.output)
    keeper = Keeper(purchase, arguments.proof)
    tell = _as_json if arguments.json else _as_text
    with closing(Shop(purchase, arguments.timeout)) as shop:
        errand = Errand(Talk(shop, tell), purse, keeper, SystemClock(), arguments.wait)
        outcome = errand.price() if arguments.dry_run else errand.buy()
        if outcome.answer is not None and outcome.exit in (Exit.RESULT, Exit.ERROR):
            _hand_out(outcome.answer, arguments, keeper)
        if outcome.exit == 0 and not arguments.dry_run:
            keeper.drop()
    return int(outcome.exit)


def _purchase(arguments: Namespace) -> Purchase:
    body = None if arguments.data is None else _data(arguments.data)
    headers = tuple(_header(line) for line in arguments.header)
    if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", _content_type(body)))
    method = arguments.method or ("GET" if body is None else "POST")
    return Purchase(method.upper(), arguments.url, headers, body)


def _data(text: str) -> bytes:
    if text == "@-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise WrongCall(f"the data cannot be read: {error}") from None


def _content_type(body: bytes) -> str:
    """JSON if it is JSON, else what curl says."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "application/x-www-form-urlencoded"
    return "application/json"


def _header(line: str) -> Header:
    name, colon, value = line.partition(":")
    sane = name.isascii() and name.isprintable() and value.isprintable() and value.isascii()
    if not colon or not name or " " in name or not sane:
        raise WrongCall(f"{line!r} is no header: say 'Name: value'.")
    return name, value.strip()


def _check_output(path: str | None) -> None:
    """Before anything is paid for."""
    if path is not None:
        try:
            Path(path).open("ab").close()
        except OSError as error:
            raise ConfigurationError(
                f"the result could not be written, so nothing was asked: {error}"
            ) from None


def _hand_out(answer: Response, arguments: Namespace, keeper: "Keeper") -> None:
    """Raises `ConfigurationError` if nobody takes it; what was paid for can be fetched again."""
    content = (_head(answer) if arguments.include else b"") + answer.body
    try:
        _write(content, arguments.output)
    except OSError as error:
        path = keeper.keep_open()
        again = "" if path is None else f". Nothing is lost: come back with --proof {path}"
        raise ConfigurationError(f"the result could not be written: {error}{again}") from None


def _write(content: bytes, path: str | None) -> None:
    if path is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(path).write_bytes(content)


def _head(answer: Response) -> bytes:
    lines = [f"HTTP {answer.status} {responses.get(answer.status, '')}".rstrip()]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def _as_text(step: Step) -> None:
    print(step.text(), file=sys.stderr, flush=True)


def _as_json(step: Step) -> None:
    print(json.dumps({"step": step.name, **step.fields()}), file=sys.stderr, flush=True)
