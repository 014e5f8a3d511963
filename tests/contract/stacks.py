"""Every adapter on every server: the command lines that start them, and how one runs.

A new adapter joins with one module in `sellers` and one line here.
"""

import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from faregate.emulator import TEST_KEY
from tests.support.preloaded import PreloadedPython

ROOT = Path(__file__).parents[2]
TIMEOUT = 30.0
"""Seconds that a seller waits for the service. Generous: no test waits for them to pass."""
GRACE = 1.5
"""Seconds that a server has to end by itself."""

UVICORN = "uvicorn --host 127.0.0.1 --port {port} --log-level warning {app}"
HYPERCORN = "hypercorn --bind 127.0.0.1:{port} {app}"
GRANIAN = (
    "granian --host 127.0.0.1 --port {port} --interface {interface} --log-level warning "
    "--respawn-failed-workers --respawn-interval 0.1 {app}"
)
GUNICORN = "gunicorn --bind 127.0.0.1:{port} --no-control-socket --log-level warning --preload -w 4 {app}"
GTHREAD = f"{GUNICORN} -k gthread --threads 8"
WAITRESS = "waitress --listen 127.0.0.1:{port} --threads 8 {app}"
WERKZEUG = "tests.contract.werkzeug_server {port} {app}"

MEMORY, SQLITE, DJANGO = "memory:", "sqlite:///{folder}/journal", "django:"

WITH_PREFIXES = {
    "asgi_app",
    "bottle_app",
    "django_app",
    "falcon_app",
    "flask_app",
    "starlette_app",
    "wsgi_app",
}
"""Sellers that also sell a prefix, and refuse one."""
OF_ITS_OWN_TASKS = {"quart_app"}
"""Sellers whose framework runs a handler in a task of its own, without a hook after the response: a handler
that ends its process is a crash there, and a background task begins at once."""


@dataclass(frozen=True)
class Stack:
    """One seller on one server. `app` is the module in `sellers`, and the name in it."""

    name: str
    command: str
    app: str
    interface: str
    journal: str = SQLITE

    @property
    def seller(self) -> str:
        return self.app.partition(":")[0]

    @property
    def is_reference(self) -> bool:
        """Whether it also runs the scenarios of shared code: one of these stacks awaits, the other blocks."""
        return self.name in ("starlette-uvicorn", "flask-werkzeug")

    @property
    def runs_handler_in_our_task(self) -> bool:
        """Whether a handler runs in the task or thread of the paywall's request.

        Then the paywall sees an exception that ends the task or process, and a background task of the
        handler starts only after the payment is completed.
        """
        return self.seller not in OF_ITS_OWN_TASKS

    @property
    def heals(self) -> bool:
        """Whether the server replaces what a handler ends, or does not let it end anything."""
        return self.command.startswith(("gunicorn", "waitress", "tests.contract.werkzeug"))

    @property
    def speaks_http2(self) -> bool:
        return self.command.startswith(("granian", "hypercorn"))

    @property
    def counts_chunks(self) -> bool:
        """Whether the server hands a chunked body on as one with a length."""
        return self.command.startswith("waitress")

    @property
    def closes(self) -> bool:
        """Whether every response is closed, sold or not."""
        return self.interface == "wsgi" or self.seller == "django_app"

    @property
    def adapter(self) -> str:
        """Which of the three adapters it runs."""
        return "django" if self.seller == "django_app" else self.interface

    @property
    def has_prefixes(self) -> bool:
        return self.seller in WITH_PREFIXES

    def command_line(self, port: int) -> list[str]:
        app = f"tests.contract.sellers.{self.app}"
        filled = self.command.format(port=port, app=app, interface=self.interface)
        return ["-m", *filled.split()]


def asgi(name: str, command: str, app: str, **more: object) -> Stack:
    return Stack(name, command, app, "asgi", **more)  # type: ignore[arg-type]


def wsgi(name: str, command: str, app: str, **more: object) -> Stack:
    return Stack(name, command, app, "wsgi", **more)  # type: ignore[arg-type]


STACKS = [
    asgi("starlette-uvicorn", UVICORN, "starlette_app:app", journal=MEMORY),
    asgi("starlette-granian", GRANIAN, "starlette_app:app"),
    asgi("fastapi-uvicorn-h11", f"{UVICORN} --http h11 --loop asyncio", "fastapi_app:app"),
    asgi("fastapi-hypercorn", HYPERCORN, "fastapi_app:app"),
    asgi("litestar-granian-2", f"{GRANIAN} --workers 2", "litestar_app:app"),
    asgi("quart-hypercorn", HYPERCORN, "quart_app:app"),
    asgi("plain-hypercorn-trio", f"{HYPERCORN} -k trio", "asgi_app:app"),
    asgi("django-uvicorn", UVICORN, "django_app:asgi", journal=DJANGO),
    wsgi("django-gunicorn-gthread-4", GTHREAD, "django_app:wsgi", journal=DJANGO),
    wsgi("flask-gunicorn-sync-4", f"{GUNICORN} -k sync --timeout 120", "flask_app:app"),
    wsgi("flask-werkzeug", WERKZEUG, "flask_app:app"),
    wsgi("bottle-waitress", WAITRESS, "bottle_app:app", journal=MEMORY),
    wsgi("falcon-granian", f"{GRANIAN} --blocking-threads 8", "falcon_app:app"),
    wsgi("plain-gunicorn-gthread-4", GTHREAD, "wsgi_app:app"),
]


@dataclass
class Server:
    """A server process, started when somebody asks for it and again when it has died."""

    stack: Stack
    port: int
    environ: dict[str, str]
    log: Path
    process: PreloadedPython | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = self.stack.command_line(self.port)
        self.process = PreloadedPython(words, self.environ, str(ROOT), log=self.log, own_group=True)
        self.until_ready()

    def until_ready(self, seconds: float = 60.0) -> None:
        """Raises `RuntimeError` with the end of the server's log."""
        end = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > end or self.has_ended():
                raise RuntimeError(f"{self.stack.name} does not serve:\n{self.said()}")
            time.sleep(0.05)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/open", trust_env=False, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self) -> None:
        """It is asked to end, and killed with its workers if it does not soon."""
        if self.process is None:
            return
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self.process.kill()
        self.process.close()

    def revive(self) -> None:
        """Serve again after a handler ended its process. Granian stays up with a worker that is deaf."""
        if self.stack.heals and not self.has_ended():
            self.until_ready()
        else:
            self.stop()
            self.start()

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


@contextmanager
def running(stack: Stack, service_url: str, folder: Path, **variables: str) -> Generator[Server]:
    """The stack as a process, on a free port, with a folder for its logs and its journal.

    `variables` are more of its environment, or others.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = {
        **os.environ,
        "FAREGATE_API_KEY": TEST_KEY,
        "FAREGATE_BASE_URL": service_url,
        "FAREGATE_PUBLIC_URL": "https://seller.example",
        "FAREGATE_JOURNAL": stack.journal.format(folder=folder),
        "CONTRACT_INTERFACE": stack.interface,
        "CONTRACT_LOG": str(folder / "executions"),
        "CONTRACT_TIMEOUT": str(TIMEOUT),
        **variables,
    }
    server = Server(stack, port, environ, folder / "server.log")
    try:
        server.start()
        yield server
    finally:
        server.stop()
