"""Serve a seller on a socket: `python -m tests.crash.workers.seller LISTENER`, until stdin ends.

A worker that died is replaced at once. Everything is imported before they are forked.
"""

import asyncio
import json
import logging
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import uvicorn
import waitress.server
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from tests.support.lines import append_line
from tests.support.processes import Process, fork, lifeline

CONTENT = "paid content"
SOLD = {"/quick": "daily_report", "/slow": "slow_settlement"}
"""What is paid at once, and what settles later."""
EXECUTIONS, DATABASE, WORKERS = "KILLS_EXECUTIONS", "KILLS_DATABASE", "KILLS_WORKERS"
POLL = 0.02


def main(fd: int) -> None:
    with socket.socket(fileno=fd) as listener:
        lifeline()
        database = os.environ[DATABASE]
        if database:
            _configure_django(json.loads(database))
            _wait_for(fork(_migrate))
        serve: Callable[[], None] = lambda: (_serve_django if database else _serve)(listener)  # noqa: E731
        workers = [fork(serve) for _ in range(int(os.environ[WORKERS]))]
        while not select.select([sys.stdin], [], [], POLL)[0]:
            workers = [fork(serve) if worker.look() == "dead" else worker for worker in workers]
        for worker in workers:
            worker.kill()


def _wait_for(process: Process) -> None:
    while process.look() != "dead":
        time.sleep(POLL)
    if process.status:
        raise SystemExit("the tables could not be made")


def _serve(listener: socket.socket) -> None:
    async def work(request: Request) -> Response:
        transaction = request.state.payment.transaction_id
        note(transaction)
        await asyncio.sleep(work_seconds())
        return JSONResponse(made(transaction))

    paywall = Paywall()
    routes = [Route(path, paid(key)(work)) for path, key in SOLD.items()]
    app = Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall)])
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


def _configure_django(database: dict[str, Any]) -> None:
    import django
    from django.conf import settings

    if database["ENGINE"].endswith("mysql"):
        from tests.django_site.databases import use_pymysql

        use_pymysql()
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="only for tests",
        ROOT_URLCONF="tests.crash.workers.django_urls",
        INSTALLED_APPS=["faregate.django", "faregate.django.journal"],
        MIDDLEWARE=["faregate.django.PaywallMiddleware"],
        DATABASES={"default": database},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    import tests.crash.workers.django_urls  # noqa: F401


def _migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _serve_django(listener: socket.socket) -> None:
    from django.core.wsgi import get_wsgi_application

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    server = waitress.server.create_server(get_wsgi_application(), sockets=[listener], threads=8)
    server.run()


def note(transaction: str) -> None:
    append_line(os.environ[EXECUTIONS], transaction=transaction, pid=os.getpid())


def work_seconds() -> float:
    """Mostly short, now and then two seconds."""
    chance = random.SystemRandom()
    return 2.0 if chance.random() < 0.05 else chance.uniform(0.02, 0.5)


def made(transaction: str) -> dict[str, str]:
    return {"result": CONTENT, "transaction": transaction}


if __name__ == "__main__":
    main(int(sys.argv[1]))
