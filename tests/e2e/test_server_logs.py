"""What a server logs: a line for each sale, as docs/observability.md sets it up, and one for a mistake."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from faregate.emulator import Wallet
from tests.docs.blocks import BLOCKS
from tests.support.preloaded import PreloadedPython
from tests.support.waiting import eventually

PAGE = [block for block in BLOCKS if block.page == "docs/observability.md"]
[UVICORN_JSON] = [block.code for block in PAGE if block.language == "json"]
[APP, GUNICORN_CONF, DJANGO_LOGGING] = [
    block.code for block in PAGE if "basicConfig" in block.code or block.code.startswith("LOGGING")
]
STARLETTE = """
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from faregate.starlette import PaywallMiddleware, paid

@paid("daily_report")
async def report(request):
    return PlainTextResponse("Sunny.")

app = Starlette(routes=[Route("/report", report)], middleware=[Middleware(PaywallMiddleware)])
"""
FLASK = """
from faregate.flask import Faregate
from flask import Flask

app = Flask(__name__)
paywall = Faregate(app)

@app.get("/report")
@paywall.paid("daily_report")
def report():
    return "Sunny."
"""
DJANGO = """
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import path
import django

LOGGING = {}
%s
settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["faregate.django"],
    LOGGING=LOGGING,
    MIDDLEWARE=["faregate.django.PaywallMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="x",
)
django.setup()
from faregate.django import paid

@paid("daily_report")
def report(request):
    return HttpResponse("Sunny.")

urlpatterns = [path("report", report)]
app = WSGIHandler()
"""
UVICORN = ("uvicorn", "--no-access-log", "shop:app")
GUNICORN = ("gunicorn", "--no-control-socket", "shop:app")


@dataclass(frozen=True)
class Shop:
    """An application, the server's command, and more files."""

    app: str
    command: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()


# As docs/observability.md configures them.
CONFIGURED = {
    "application": Shop(APP + STARLETTE, UVICORN),
    "uvicorn": Shop(STARLETTE, (*UVICORN, "--log-config", "logging.json"), (("logging.json", UVICORN_JSON),)),
    "gunicorn": Shop(FLASK, GUNICORN, (("gunicorn.conf.py", GUNICORN_CONF),)),
    "django": Shop(DJANGO % DJANGO_LOGGING, GUNICORN),
}
UNCONFIGURED = {
    "starlette": Shop(STARLETTE, UVICORN),
    "flask": Shop(FLASK, GUNICORN),
    "django": Shop(DJANGO % "", GUNICORN),
}


class Running:
    def __init__(self, client: httpx.Client, log: Path) -> None:
        self.client = client
        self._log = log

    def ask(self, **headers: str) -> httpx.Response:
        return self.client.get(
            "/report", headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    def buy(self) -> httpx.Response:
        return self.ask(payment_signature=Wallet().pay(self.ask().headers["payment-required"]))

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def ours(self) -> list[str]:
        return [line for line in self.lines() if " faregate." in line]  # the name of a logger


@contextmanager
def running(shop: Shop, folder: Path, *, is_unix: bool = False) -> Generator[Running]:
    """The shop on a port, or on a unix socket."""
    (folder / "shop.py").write_text(shop.app)
    for name, text in shop.files:
        (folder / name).write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    path, log = folder / "s", folder / "log"
    if shop.command[0] == "uvicorn":
        where = ["--uds", str(path)] if is_unix else ["--port", str(port)]
    else:
        where = ["--bind", f"unix:{path}" if is_unix else f"127.0.0.1:{port}"]
    words = ["-m", *shop.command, *where]
    environ = {"FAREGATE_BASE_URL": "emulator:", "PYTHONUNBUFFERED": "1"}
    transport = httpx.HTTPTransport(uds=str(path) if is_unix else None)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, trust_env=False)
    with client, PreloadedPython(words, environ, str(folder), log=log, own_group=True) as process:
        assert eventually(lambda: _accepts(str(path) if is_unix else ("127.0.0.1", port)))
        yield Running(client, log)
        process.terminate()


def _accepts(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        return connection.connect_ex(address) == 0


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_sale_is_one_line_as_documented(name: str, tmp_path: Path) -> None:
    with running(CONFIGURED[name], tmp_path) as shop:
        bought = shop.buy()
        assert bought.text == "Sunny."
    transaction = bought.headers["faregate-transaction"]
    [line] = [line for line in shop.lines() if transaction in line]
    assert (
        " INFO faregate.sale: sale of daily_report delivered: GET /report, status 200, 50000 atomic" in line
    )
    assert line[:2] == "20"  # the time


@pytest.mark.parametrize("name", UNCONFIGURED)
def test_behind_a_proxy_a_missing_public_url_is_one_warning(name: str, tmp_path: Path) -> None:
    with running(UNCONFIGURED[name], tmp_path) as shop:
        for _ in range(2):
            assert shop.ask().status_code == 402
        assert shop.ours() == []
        for _ in range(2):
            assert shop.ask(x_forwarded_proto="https", host="shop.example").status_code == 402
    [line] = shop.ours()
    assert " WARNING faregate.settings: payers are offered http" in line
    assert line.endswith(
        "Set FAREGATE_PUBLIC_URL to the address that payers use, such as https://shop.example"
    )
    assert line[:2] == "20"


@pytest.mark.parametrize("name", UNCONFIGURED)
def test_on_a_unix_socket_a_missing_public_url_is_one_error(name: str, tmp_path: Path) -> None:
    with running(UNCONFIGURED[name], tmp_path, is_unix=True) as shop:
        for headers in ({}, {"payment_signature": "e30="}):
            answer = shop.ask(**headers)
            assert (answer.status_code, answer.json()["code"]) == (502, "payment_service_unavailable")
    [line] = shop.ours()
    assert " ERROR faregate.settings: nothing can be sold:" in line
    assert "Set FAREGATE_PUBLIC_URL to the address that payers use" in line
    assert "Traceback" not in "".join(shop.lines())
