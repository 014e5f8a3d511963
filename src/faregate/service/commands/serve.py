"""`faregate service serve` and `work`: the processes that settle payments, one of which answers requests.

uvicorn runs one process. An operator starts as many as needed.
"""

import json
import os
import signal
import socket
import threading
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn

from faregate.connections import BACKLOG, LimitedConnection
from faregate.errors import ConfigurationError
from faregate.rules.asgi import App
from faregate.rules.builtin_account import builtin_account
from faregate.service.asgi import ServiceApp
from faregate.service.commands.setup import apply_catalog, apply_seller, refuse_at_start
from faregate.service.console.layout import ROOT as CONSOLE
from faregate.service.database.keys import create_key
from faregate.service.log_format import configure_logging
from faregate.service.operator_pages import OperatorPages
from faregate.service.runtime import Runtime, open_runtime
from faregate.service.settings import Settings, is_in_process, read_settings
from faregate.service.storage import Storage, create_tables
from faregate.system import get_url, open_listener, system_clock

_SHUTDOWN_SECONDS: Final = 15
"""Beyond the time that a completion waits: a call to a facilitator or a chain may be under way."""


def run_serve(arguments: Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    return serve(read_settings(arguments), as_json=arguments.json)


def serve(settings: Settings, *, as_json: bool = False) -> int:
    """Serve with these settings."""
    configure_logging(settings.log_format, settings.log_level)
    if not is_in_process(os.environ):  # else the application makes them, in the folder where it runs
        create_tables(settings)
    with open_runtime(settings, pool_size=settings.pool_size) as runtime:
        test_key = _set_up(runtime.storage, settings, as_json)
        runtime.check_recipients()
        runtime.warn_of_unserved()
        listener = open_listener(settings.host, settings.port)
        url = get_url(listener)
        if as_json:
            print(json.dumps({"url": url, "test_key": test_key}), flush=True)
        else:
            print(_greet(runtime.storage, settings, url), flush=True)
        _run_server(ServiceApp(runtime.build_parts()), settings, runtime, listener)
    return 0


def run_work(arguments: Namespace) -> int:
    """Settle payments until SIGINT or SIGTERM."""
    return work(read_settings(arguments))


def work(settings: Settings) -> int:
    """Work with these settings."""
    if settings.workers == 0:
        raise ConfigurationError("--workers is 0, so nothing would be settled: give 1 or more.")
    configure_logging(settings.log_format, settings.log_level)
    with open_runtime(settings, pool_size=settings.workers + 2) as runtime:
        runtime.check_recipients()
        runtime.warn_of_unserved()
        started = f"{settings.workers} workers settle payments (stop them with Ctrl-C)."
        if settings.metrics_port is None:
            _run_alone(runtime, started)
            return 0
        # Before the workers start: a port that is taken ends the process, and they would keep it alive.
        listener = open_listener(settings.host, settings.metrics_port)
        print(started, flush=True)
        pages = OperatorPages(runtime.build_operator_parts())
        _run_server(pages, settings, runtime, listener)
    return 0


def _run_alone(runtime: Runtime, started: str) -> None:
    asked_to_end = threading.Event()

    def end(*_: object) -> None:
        asked_to_end.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    runtime.begin()
    print(started, flush=True)
    asked_to_end.wait()
    runtime.end()


def _run_server(app: App, settings: Settings, runtime: Runtime, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM: then it stops accepting, and finishes the requests that run."""
    server = build_server(app, complete_seconds=settings.complete_seconds)
    try:
        with listener, _handling_signals(server):
            server.run(sockets=[listener])
    finally:
        runtime.end()  # a second Ctrl-C ends uvicorn before it ends the app


def _set_up(storage: Storage, settings: Settings, as_json: bool) -> str | None:
    """Apply the catalog; for a script that starts with a new database, make a test key and return it."""
    is_new = not storage.list_accounts()
    if settings.catalog is not None:
        apply_catalog(storage, settings, settings.catalog, review=refuse_at_start(settings.catalog))
    elif is_new and as_json and settings.payments == "simulated":
        apply_seller(storage, builtin_account())
    has_seller = any(account.environment == "test" for account in storage.list_accounts())
    if not (is_new and as_json and has_seller and "test" in settings.environments):
        return None
    account = storage.find_account("test", None)
    with storage.database.write() as connection:
        return create_key(connection, account, system_clock(), name="made at the first start").secret


def _greet(storage: Storage, settings: Settings, url: str) -> str:
    lines = [f"The Merchant API is served at {url} (stop it with Ctrl-C).", f"Payments: {settings.payments}."]
    if not storage.list_accounts():
        lines.append("There is nothing to sell yet: run `faregate service apply catalog.toml`.")
        lines.append("Then make a key for your app: `faregate service key create`.")
    lines.append(f"The console is at {url}{CONSOLE} (log in with an API key).")
    lines.append(f"For your app:\n  export FAREGATE_BASE_URL={url}")
    return "\n".join(lines)


@contextmanager
def _handling_signals(server: uvicorn.Server) -> Generator[None]:
    """End the server by a signal that comes before it listens to them, and not the process by a later one.

    After its shutdown uvicorn raises the signal again, for handlers that were there before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    previous_handlers = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def build_server(app: App, *, complete_seconds: float) -> uvicorn.Server:
    """Build the server, for `serve` or for a thread of a test."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="on",
            http=LimitedConnection,
            ws="none",
            backlog=BACKLOG,
            proxy_headers=True,  # of proxies that FORWARDED_ALLOW_IPS names; this machine without it
            timeout_graceful_shutdown=int(complete_seconds) + _SHUTDOWN_SECONDS,
            access_log=False,
            log_config=None,
            server_header=False,
        )
    )
