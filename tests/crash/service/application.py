"""Applications with the service inside their process: they die at the points of the rules, and at their own.

Their journal is in the database of the service, as where a seller names no other. Starlette runs on uvicorn,
Flask on gunicorn with `--preload`, Django on waitress.
"""

import asyncio
import base64
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faregate import Payment, paywall
from faregate.journals.urls import journal_from_url
from faregate.starlette import PaywallMiddleware, paid
from tests.crash.points.kill_wrappers import DyingJournal, dying_server
from tests.crash.stores import KEYS
from tests.support.lines import append_line

ApplicationName = Literal["starlette", "flask", "django"]
APPLICATIONS: Final[tuple[ApplicationName, ...]] = ("starlette", "flask", "django")
RUNS: Final = "runs.jsonl"
CONTENT: Final = "paid content"
WORK_SECONDS: Final = 0.15
_SOLD: Final = ("long", "short", "usage")
_THREADS: Final = 8
_JOURNAL: Final = ("claim", "record_transaction", "record_outcome", "record_settlement", "schedule_retry")
OWN_POINTS: Final = (
    *(f"{call}:{place}" for call in _JOURNAL for place in ("before", "after")),
    *("work:begin", "work:end", "response:before", "response:head", "response:body"),
)
"""Where the paywall and the handler may die, besides the points of the rules."""


class _Kills(Protocol):
    """What dies at its points."""

    @property
    def reach(self) -> Callable[[str], None]: ...


class _Work:
    """What every application does for a payment; `log` says what ran."""

    def __init__(self, folder: Path, kills: Any) -> None:
        self._log, self.kills = folder / RUNS, kills

    def begin(self, transaction_id: str | None, proof: str) -> None:
        append_line(self._log, transaction=transaction_id, proof=proof)
        self.kills.reach("work:begin")

    def end(self, query: Mapping[str, str], payment: Payment) -> tuple[dict[str, Any], int]:
        """Report what was used, and return the body and the status of the response."""
        self.kills.reach("work:end")
        if query.get("work") == "fails":
            return {"sorry": True}, 500
        if "units" in query:
            payment.report(units=query["units"])
        return {"result": CONTENT}, 200


def sell(
    application: ApplicationName, settings: dict[str, Any], log: Path, listener: socket.socket, kills: Any
) -> None:
    """Sell until this process is ended. The settings of the service are in a file beside its log."""
    config_file = log.with_suffix(".toml")
    config_file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    os.environ |= {
        "FAREGATE_BASE_URL": "service:",
        "FAREGATE_SERVICE_CONFIG": str(config_file),
        "FAREGATE_JOURNAL_KEY": base64.b64encode(KEYS[0]).decode(),
        "FAREGATE_PUBLIC_URL": "https://seller.example",
        "FAREGATE_MAX_WORK_SECONDS": "5",
    }
    setattr(  # noqa: B010
        paywall, "journal_from_url", lambda *given: DyingJournal(journal_from_url(*given), kills)
    )
    serve = {"starlette": _serve_starlette, "flask": _serve_flask, "django": _serve_django}[application]
    serve(listener, _Work(log.parent, kills))


def _serve_starlette(listener: socket.socket, work: _Work) -> None:
    async def handle(request: Request) -> Response:
        work.begin(request.state.payment.transaction_id, request.headers["payment-signature"])
        await asyncio.sleep(WORK_SECONDS)
        return JSONResponse(*work.end(request.query_params, request.state.payment))

    routes = [Route(f"/{key}", paid(key)(handle)) for key in _SOLD]
    app = Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware)])
    config = uvicorn.Config(
        dying_server(app, work.kills),
        loop="asyncio",
        ws="none",
        interface="asgi3",
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])


def _serve_flask(listener: socket.socket, work: _Work) -> None:
    import flask
    from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

    from faregate.flask import Faregate, payment

    app, extension = flask.Flask("seller"), Faregate()

    def handle() -> Any:
        work.begin(payment.transaction_id, flask.request.headers["payment-signature"])
        time.sleep(WORK_SECONDS)
        return work.end(flask.request.args, payment)

    for key in _SOLD:
        app.add_url_rule(f"/{key}", key, extension.paid(key)(handle))

    class Server(BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            options = {
                "bind": [f"fd://{listener.fileno()}"],
                "worker_class": "gthread",
                "threads": _THREADS,
                "preload_app": True,
                "control_socket_disable": True,
                "loglevel": "warning",
                "post_fork": lambda _server, worker: _end_with(worker.ppid),
                # Where its only worker has died, this process is to be replaced, too.
                "child_exit": lambda _server, _worker: os.kill(os.getpid(), signal.SIGKILL),
            }
            for name, value in options.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            extension.init_app(app)
            return _dying_wsgi(app, work.kills)

    Server().run()


def _end_with(parent: int) -> None:
    """End this process, a worker, when the one that forked it is killed."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _serve_django(listener: socket.socket, work: _Work) -> None:
    import waitress.server
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, JsonResponse
    from django.urls import path

    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="only for tests",
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["faregate.django"],
        MIDDLEWARE=["faregate.django.PaywallMiddleware"],
    )
    from faregate.django import get_payment
    from faregate.django import paid as paid_view

    def handle(request: HttpRequest) -> JsonResponse:
        work.begin(get_payment(request).transaction_id, request.headers["payment-signature"])
        time.sleep(WORK_SECONDS)
        body, status = work.end(request.GET, get_payment(request))
        return JsonResponse(body, status=status)

    urlpatterns.extend(path(key, paid_view(key)(handle)) for key in _SOLD)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    app = _dying_wsgi(get_wsgi_application(), work.kills)
    waitress.server.create_server(app, sockets=[listener], threads=_THREADS).run()


urlpatterns: list[Any] = []
"""Of Django's application."""


def _dying_wsgi(app: Any, kills: _Kills) -> Any:
    """The app, with points before and in a paid response, and after it."""

    def dying(environ: Any, start_response: Any) -> Iterator[bytes]:
        is_paid = False

        def start(status: str, headers: list[tuple[str, str]], *given: Any) -> Any:
            nonlocal is_paid
            is_paid = any(name.lower() == "payment-response" for name, _ in headers)
            if is_paid:
                kills.reach("response:before")
            return start_response(status, headers, *given)

        body = app(environ, start)
        try:
            for chunk in body:
                if is_paid:
                    kills.reach("response:head")
                yield chunk
            if is_paid:
                kills.reach("response:body")
        finally:
            if hasattr(body, "close"):
                body.close()

    return dying
