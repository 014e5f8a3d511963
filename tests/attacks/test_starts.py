"""A misconfigured application fails at once with its sentence: on every server, and in test clients."""

import os
import socket
from pathlib import Path
from typing import Any

import fastapi.testclient
import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.starlette
from faregate.errors import ConfigurationError
from tests.attacks.report import figures
from tests.attacks.site import make_paywall
from tests.support.preloaded import run_preloaded
from tests.support.products import take_part

SOON = 60.0
"""Seconds, on a busy machine: without its sentence a server would serve for ever."""
PREFIX = "A path prefix starts with a slash: 'sold' does not."
NOT_CALLED = "Write Depends(paid('text_summary')), with what is sold."

SHOP = """
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
import faregate.fastapi
import faregate.starlette

settings = {"base_url": "http://127.0.0.1:9", "api_key": "svc_test_emulator"}
wrong_prefix = Starlette(
    middleware=[Middleware(faregate.starlette.PaywallMiddleware, offers={"sold": "daily_report"}, **settings)]
)
not_called = FastAPI()
not_called.add_middleware(faregate.fastapi.PaywallMiddleware, **settings)


@not_called.get("/sold", dependencies=[Depends(faregate.fastapi.paid)])
async def sold() -> str:
    return "content"
"""
APPS = {"wrong_prefix": PREFIX, "not_called": NOT_CALLED}
SERVERS = {
    "uvicorn": "uvicorn --port {port}",
    "uvicorn with its lifespan on": "uvicorn --lifespan on --port {port}",
    "hypercorn": "hypercorn --bind 127.0.0.1:{port}",
    "hypercorn on trio": "hypercorn -k trio --bind 127.0.0.1:{port}",
    "granian": "granian --port {port} --interface asgi",
}


def is_pair(server: str, app: str) -> bool:
    """Each server starts one of the two, in turn."""
    return [*SERVERS].index(server) % 2 == [*APPS].index(app)


@pytest.mark.parametrize(
    ("server", "app"), take_part(((server, app) for app in APPS for server in SERVERS), is_pair)
)
def test_a_server_ends_with_the_sentence(server: str, app: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = ["-m", *SERVERS[server].format(port=port).split(), f"shop:{app}"]
    done = run_preloaded(words, dict(os.environ), tmp_path, SOON)
    said = " ".join((done.stdout + done.stderr).split())
    figures.count("starts of what is misconfigured", [] if APPS[app] in said else [server])
    assert APPS[app] in said


def wrong_prefix(**options: Any) -> Any:
    offers = {"sold": "daily_report"}
    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=make_paywall(), offers=offers)
    return Starlette(middleware=[front])


def not_called() -> Any:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    anything: Any = faregate.fastapi.paid
    app.add_api_route("/sold", lambda: "content", dependencies=[Depends(anything)])
    return app


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("client", [TestClient, fastapi.testclient.TestClient])
@pytest.mark.parametrize("app", [wrong_prefix, not_called])
def test_a_test_client_raises_the_sentence(app: Any, client: Any, backend: str) -> None:
    """It waited for ever: a start that failed is to be raised, too."""
    expected = PREFIX if app is wrong_prefix else NOT_CALLED.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ConfigurationError, match=expected), client(app(), backend=backend):
        pass
    figures.count("starts of what is misconfigured", [])
    with pytest.raises(ConfigurationError, match=expected):
        client(app(), backend=backend).get("/sold")
