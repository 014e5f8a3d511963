"""Servers that load the application anew while they run: it sells on, at the price of its new code."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from faregate.emulator.wallet import Wallet
from tests.service.in_process import Buyer, build_environ
from tests.service.test_in_process import count_sales, list_amounts, read_terms
from tests.support.waiting import eventually

APP = """
from flask import Flask

from faregate.flask import Faregate

app = Flask("seller")
paywall = Faregate(app)
app.get("/report")(paywall.paid("daily_report", price="0.05 USDC")(lambda: {"report": "sunny"}))
"""
ASGI_APP = """
from faregate.starlette import PaywallMiddleware, paid
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route


@paid("daily_report", price="0.05 USDC")
async def report(request):
    return JSONResponse({"report": "sunny"})


app = Starlette(routes=[Route("/report", report)], middleware=[Middleware(PaywallMiddleware)])
"""
UVICORN = ("uvicorn", "shop:app", "--reload", "--reload-delay", "0.1", "--port", "{port}")
GUNICORN = ("gunicorn", "shop:app", "--no-control-socket", "-w", "2", "-b", "127.0.0.1:{port}")


@contextmanager
def serve(folder: Path, environ: dict[str, str], *words: str) -> Generator[tuple[str, int]]:
    """Serve the application of a folder; gives its address and the process that reloads it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *(word.format(port=port) for word in words)]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    # Bytecode is told from its source by whole seconds.
    settings |= environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, cwd=folder, env=settings, start_new_session=True) as process:
        try:
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            # A server that reloads has children, which need not end with it.
            os.killpg(process.pid, signal.SIGKILL)


def read_price(client: httpx.Client) -> str | None:
    try:
        asked = client.get("/report")
    except httpx.TransportError:
        return None
    return str(read_terms(asked)["amount"]) if asked.status_code == 402 else None


@pytest.mark.parametrize(
    ("code", "words"), [(ASGI_APP, UVICORN), (APP, GUNICORN)], ids=["uvicorn", "gunicorn"]
)
def test_a_reloaded_application_sells_at_its_new_price(
    code: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (folder := tmp_path / "app").mkdir()
    (folder / "shop.py").write_text(code)
    environ = build_environ(tmp_path)
    with (
        serve(folder, environ, *words) as (url, server),
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
    ):
        buyer = Buyer(client, Wallet())
        assert eventually(lambda: read_price(client) == "50000")
        assert buyer.buy().json() == {"report": "sunny"}
        (folder / "shop.py").write_text(code.replace("0.05", "0.07"))
        if words is GUNICORN:
            os.kill(server, signal.SIGHUP)
        assert eventually(lambda: read_price(client) == "70000")
        # Another payer: for some seconds after its sender ended, the first one is led to the first result.
        assert Buyer(client, Wallet()).buy().json() == {"report": "sunny"}
    assert count_sales(environ) == (2, 2)
    assert list_amounts(environ) == [50_000, 70_000]
