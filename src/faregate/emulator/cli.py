"""`faregate emulator`: read the account, listen, print address and keys, serve, and print each call."""

import json
import socket
import sys
import webbrowser
from argparse import Namespace
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final

from faregate.commands import Command, Option
from faregate.core.models import Response, WireRequest, header_values
from faregate.emulator.calls import decode_header, parse_fields
from faregate.emulator.clock import EmulatorClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.state_file import StateFile
from faregate.emulator.tenants import Tenants
from faregate.errors import CommandError, ConfigurationError
from faregate.rules.account import Account, Resource
from faregate.rules.builtin_account import builtin_account
from faregate.rules.published_payers import TEST_PAYERS
from faregate.system import PortTaken, get_url, system_clock

_PROOF: Final = "payment-signature"
_MAX: Final = 200
DEFAULT_PORT: Final = 8402


def parse_port(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def parse_rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


EMULATOR: Final = Command(
    "emulator",
    "run the merchant service on this machine, with a console",
    "faregate.emulator.cli:run_emulator",
    "Run the Merchant API on this machine, for development and tests. No account is needed.",
    (
        Option(
            "--port",
            f"port to listen on; 0 picks a free one; default {DEFAULT_PORT}, or a free one if that is taken",
            parse_port,
        ),
        Option("--host", "loopback address to listen on; any other needs --allow-remote", str, "127.0.0.1"),
        Option(
            "--allow-remote",
            "accept connections from other machines; control plane and console stay local",
        ),
        Option("--no-control", "disable the control plane and the console"),
        Option(
            "--account",
            "read API keys and resources from this TOML file; default: the built-in account",
            str,
            metavar="FILE",
        ),
        Option("--allow-live", "accept live keys; without this option they get 401"),
        Option("--state", "load the state from this file, and save every change to it", str, metavar="FILE"),
        Option("--seed", "generate the same ids and challenges for the same calls", str, metavar="N"),
        Option(
            "--freeze",
            "freeze the clock at this time, such as 2026-01-01T00:00Z",
            str,
            metavar="MOMENT",
            group="clock",
        ),
        Option("--rate", "run the clock X times as fast as real time", parse_rate, "1", "X", group="clock"),
        Option(
            "--mode",
            "inject the faults of this mode from the start, such as double-402; default clean: none",
            str,
            "clean",
            "NAME",
        ),
        Option("--expose-execution-id", "return the execution id of free access"),
        Option("--open", "show the console in a web browser"),
        Option("--json", "print address and keys as one line of JSON, and no calls"),
        Option("--quiet", "do not print a line for each call on stderr"),
    ),
)


def format_json(emulator: Emulator, url: str, arguments: Namespace) -> str:
    """Format one line of JSON: `url`, `test_key`, and `live_key` if live keys are allowed."""
    values = {"url": url, "test_key": emulator.account.first_key("test")}
    if arguments.allow_live:
        values["live_key"] = emulator.account.first_key("live")
    return json.dumps(values)


def format_text(emulator: Emulator, url: str, arguments: Namespace) -> str:
    is_another = arguments.port is None and not url.endswith(f":{DEFAULT_PORT}")
    taken = f"port {DEFAULT_PORT} is taken; " if is_another else ""
    keys = [key for key in emulator.account.keys if arguments.allow_live or key.environment == "test"]
    page = "" if arguments.no_control else f"Console: {get_console_url(url)}\n"
    return "\n".join(
        (
            f"The Merchant API is emulated at {url} ({taken}stop it with Ctrl-C).",
            f"{page}\nKeys:",
            *(f"  {key.key}  ({', '.join(key.capabilities)})" for key in keys),
            "\nFor your app:",
            f"  export FAREGATE_BASE_URL={url}",
            f"  export FAREGATE_API_KEY={keys[0].key if keys else ''}\n",
            *_format_resources(emulator),
            "\nPayers, for faregate pay URL --payer NAME:",
            *(f"  {payer.name:<18}{payer.about}" for payer in TEST_PAYERS.values()),
        )
    )


def _format_resources(emulator: Emulator) -> list[str]:
    rows = [
        ("resource", "price", "revision (test)"),
        *(_format_resource(emulator, resource) for resource in emulator.account.resources),
    ]
    width = max(14, *(len(price) + 2 for _, price, _ in rows))
    return [f"  {key:<26}{price:<{width}}{revision}" for key, price, revision in rows]


def _format_resource(emulator: Emulator, resource: Resource) -> tuple[str, str, str]:
    rules = resource.revisions[-1]
    price = rules.default_price_label
    if resource.archived:
        price = "archived"
    elif not resource.require_payment:
        price = "free"
    revision = emulator.revision_id(resource.key) if "test" in resource.environments else "-"
    return resource.key, price, revision


def run_emulator(arguments: Namespace) -> int:
    """Serve until interrupted, then return 0; `ConfigurationError` if it cannot start."""
    from faregate.emulator.server import run

    if arguments.open and arguments.no_control:
        raise CommandError("--open shows the console, which --no-control disables.")
    emulator = Emulator(
        _load_account(arguments.account),
        clock=_build_clock(arguments.freeze, arguments.rate),
        seed=arguments.seed,
        allow_live=arguments.allow_live,
        expose_execution_id=arguments.expose_execution_id,
        mode=arguments.mode,
    )
    tenants = Tenants(emulator) if arguments.json or arguments.quiet else Tenants(emulator, _print_call)
    state = None if arguments.state is None else StateFile(arguments.state)
    if state is not None:
        state.begin(tenants)
    listener = _listen(arguments)
    greet = format_json if arguments.json else format_text
    with suppress(KeyboardInterrupt):
        print(greet(emulator, url := get_url(listener), arguments), flush=True)
        if arguments.open:
            # A browser in the terminal would keep the server from running.
            Thread(target=_open_console, args=(get_console_url(url),), daemon=True).start()
        run(tenants, listener, control=not arguments.no_control, state=state)
    return 0


def get_console_url(url: str) -> str:
    """Return the console's address on this machine: it answers at a loopback address only."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:") + "/"


def _listen(arguments: Namespace) -> socket.socket:
    """Listen on the port that was given, else on the default one, else on a free one."""
    from faregate.emulator.server import listen

    try:
        port = DEFAULT_PORT if arguments.port is None else arguments.port
        return listen(arguments.host, port, allow_remote=arguments.allow_remote)
    except PortTaken:
        if arguments.port is not None:
            raise
        return listen(arguments.host, allow_remote=arguments.allow_remote)


def _open_console(url: str) -> None:
    if not webbrowser.open(url):
        print(f"No web browser was found. Open {url} in one.", file=sys.stderr, flush=True)


def _print_call(request: WireRequest, delivery: Delivery) -> None:
    # On stderr: who reads the address from a pipe on stdout and then stops reading must not stop the server.
    with suppress(OSError, ValueError):
        print(format_call(request, delivery), file=sys.stderr, flush=True)


def format_call(request: WireRequest, delivery: Delivery) -> str:
    """One line without keys, proofs and queries: `POST /merchant/v1/access  402  payment required`"""
    path = request.path.partition("?")[0]
    fields = parse_fields(delivery.response)
    transaction = fields.get("transaction_id")
    about = f"  {transaction}" if isinstance(transaction, str) and transaction not in path else ""
    status = str(delivery.response.status) if delivery.response.status else "---"
    line = f"{request.method:<4} {path}  {status}  {_explain(request, delivery, fields)}{about}"
    return "".join(char if char.isprintable() else "?" for char in line)[:_MAX]


def _explain(request: WireRequest, delivery: Delivery, fields: dict[str, Any]) -> str:
    if delivery.ending != "whole":
        return f"the answer is not delivered ({delivery.ending})"
    status = delivery.response.status
    if status == 402:
        return _explain_refusal(request, delivery.response)
    if status >= 400:
        return str(fields.get("code", "error"))
    if "count" in fields:
        return f"{len(fields.get('items', ()))} of {fields['count']}"
    if "status" in fields:
        return str(fields["status"])
    if status == 202:
        return "still settling"
    if request.path.endswith("/access"):
        return "free" if fields.get("transaction_id") is None else "granted"
    return "done"


def _explain_refusal(request: WireRequest, response: Response) -> str:
    if not header_values(request.headers, _PROOF):
        return "payment required"
    reason = (decode_header(response.headers, "payment-required") or {}).get("error")
    return f"payment refused: {reason}" if reason else "payment refused"


def _build_clock(freeze: str | None, rate: float) -> EmulatorClock:
    clock = EmulatorClock(system_clock, frozen_at=None if freeze is None else _parse_moment(freeze))
    if freeze is None:
        clock.run(rate)
    return clock


def _parse_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a date and time such as 2026-01-01T00:00:00Z") from None


def _load_account(path: str | None) -> Account:
    if path is None:
        return builtin_account()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the account: {error}") from None
    return Account.from_toml(text, path)
