"""Serve the emulator over HTTP on the loopback interface, with uvicorn."""

import gc
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Thread

import uvicorn

from faregate.connections import BACKLOG, LimitedConnection
from faregate.emulator.asgi import app
from faregate.emulator.control.access import is_loopback
from faregate.emulator.delivery import CLOSING_EXTENSION
from faregate.emulator.emulator import Emulator
from faregate.emulator.state_file import StateFile
from faregate.emulator.tenants import Tenants
from faregate.errors import ConfigurationError
from faregate.rules.asgi import Receive, Scope, Send
from faregate.system import get_url, open_listener


def listen(host: str = "127.0.0.1", port: int = 0, *, allow_remote: bool = False) -> socket.socket:
    """Open a listening socket; port 0 is any free one.

    `ConfigurationError` for an address that other machines can reach, unless `allow_remote` is set.
    """
    if not (allow_remote or host == "localhost" or is_loopback(host)):
        raise ConfigurationError(
            f"{host!r} is not a loopback address: other machines could reach it. Use --allow-remote"
        )
    return open_listener(host, port)


def run(
    emulator: Emulator | Tenants,
    listener: socket.socket,
    *,
    control: bool = True,
    state: StateFile | None = None,
) -> None:
    """Serve until interrupted. `state` has begun; it is kept meanwhile.

    The process is the emulator's own: garbage collections are shortened in all of it.
    """
    with listener, short_collections():
        _build_server(emulator, control, state).run(sockets=[listener])


@contextmanager
def serve(
    emulator: Emulator | Tenants, port: int = 0, *, control: bool = True, state: StateFile | None = None
) -> Generator[str]:
    """Serve on a local port while the block runs, in one thread; yields the URL."""
    with listen(port=port) as listener:
        server = _build_server(emulator, control, state)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="faregate-emulator")
        thread.start()
        try:
            yield get_url(listener)
        finally:
            # uvicorn does not close what it opened if it is to end before it has started; uvloop then hangs.
            while not server.started and thread.is_alive():
                thread.join(0.01)
            server.should_exit = True
            thread.join()


@contextmanager
def short_collections() -> Generator[None]:
    """Take what survived a full garbage collection out of all later ones, while the block runs.

    With 100,000 transactions each would stop the server for 0.2 to 1 s.
    """
    gc.callbacks.append(_freeze_survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze_survivors)
        gc.unfreeze()


def _freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _collect_discarded(scope: Scope) -> None:
    """Let collections see everything again after a reset, a restore or the end of a tenant.

    What these discard is full of cycles, records and indexes, and would otherwise stay for ever.
    """
    is_discarding = scope["method"] == "DELETE" or scope["path"].endswith(("/reset", "/restore", "/state"))
    if is_discarding and _freeze_survivors in gc.callbacks:
        gc.unfreeze()


def _build_server(emulator: Emulator | Tenants, control: bool, state: StateFile | None) -> uvicorn.Server:
    served = app(emulator, control=control, state=state)

    async def serving(scope: Scope, receive: Receive, send: Send) -> None:
        """Tells answers without an end when it is time to end: the server waits for them."""
        scope.setdefault("extensions", {})[CLOSING_EXTENSION] = lambda: server.should_exit
        await served(scope, receive, send)
        if scope["type"] == "http":
            _collect_discarded(scope)

    # The lifespan is required: it keeps and saves the state file.
    server = uvicorn.Server(
        uvicorn.Config(
            serving,
            lifespan="on",
            http=LimitedConnection,
            ws="none",
            backlog=BACKLOG,
            # The control plane asks where a request comes from: the socket's peer, whatever a header says.
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            access_log=False,
            log_level="warning",
            server_header=False,
        )
    )
    return server
