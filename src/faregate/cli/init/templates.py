"""What `faregate init` writes and shows, for each framework."""

import re
from dataclasses import dataclass
from typing import Final

from faregate.cli.init.places import Place

APP_FILE: Final = "shop.py"
TEST_FILE: Final = "test_shop.py"
PYTEST_FILE: Final = "pytest.ini"
ENVIRON_FILE: Final = ".env.example"
PYTEST_LINE: Final = "faregate_base_url = emulator:"
PYTEST_INI: Final = f"""\
[pytest]
# The emulator, already when your application is imported: no test calls a real service.
{PYTEST_LINE}
"""
_ENVIRON_HEAD: Final = """\
# Settings of faregate. Copy this file to .env, and keep .env out of version control.
# `faregate` and `flask run` read .env in the current folder, if python-dotenv is installed.
# uvicorn: uvicorn --env-file .env shop:app
# gunicorn, Django: set -a; . ./.env; set +a
"""
ENVIRON: Final = f"""\
{_ENVIRON_HEAD}
# On this machine: the whole service inside your process. No account is needed, and no money moves.
FAREGATE_BASE_URL=emulator:

# Test: the service, with money that is worth nothing.
# FAREGATE_BASE_URL=https://service.example.com
# FAREGATE_API_KEY=svc_test_...
# FAREGATE_PUBLIC_URL=https://api.example.com

# Live: real money. The journal must outlive the process. Its key is base64 of 32 random bytes:
# python -c "import secrets, base64; print(base64.b64encode(secrets.token_bytes(32)).decode())"
# FAREGATE_API_KEY=svc_live_...
# FAREGATE_JOURNAL=sqlite:////var/lib/shop/journal.db
# FAREGATE_JOURNAL_KEY=...
"""
REAL_ENVIRON: Final = f"""\
{_ENVIRON_HEAD}
# The service runs inside your process. Payments are on Base Sepolia, a test network.
FAREGATE_BASE_URL=service:

# The address that is paid: that of your wallet, 0x and 40 hex digits.
FAREGATE_SERVICE_PAY_TO=

# For a first look: no money moves, and no address is needed.
# FAREGATE_SERVICE_PAYMENTS=simulated

# Live: real money on Base. All of these are needed. The key is base64 of 32 random bytes:
# python -c "import secrets, base64; print(base64.b64encode(secrets.token_bytes(32)).decode())"
# FAREGATE_ENVIRONMENT=live
# FAREGATE_PUBLIC_URL=https://api.example.com
# FAREGATE_SERVICE_DATABASE=sqlite:////var/lib/shop/faregate.db
# FAREGATE_SERVICE_RPC_LIVE=https://...
# FAREGATE_SERVICE_FACILITATOR_LIVE=https://...
# FAREGATE_JOURNAL_KEY=...
"""


@dataclass(frozen=True, slots=True)
class Template:
    """What a framework needs. `{app}`, `{module}` and `{target}` stand for the application's names.

    `lines` make an existing application sell something: `{route}` is the path without its slash, `{function}`
    the name of the handler, and `{file}` of Django the settings. `client` is the expression of a test client.
    """

    title: str
    package: str
    app: str
    run: str
    client: str
    imports: str = ""
    lines: str = ""
    run_factory: str = ""


_DOCSTRING: Final = '"""Sells GET /report as daily_report, which the emulator sells for 0.05 USDC."""\n'
_UVICORN: Final = "uvicorn {target}"
_TEST_CLIENT: Final = "from starlette.testclient import TestClient"

_FASTAPI: Final = Template(
    title="FastAPI",
    package="fastapi",
    app="""
import logging

from faregate.fastapi import PaywallMiddleware, paid
from fastapi import Depends, FastAPI

# A line for each sale, on standard error.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

app = FastAPI()
app.add_middleware(PaywallMiddleware)


@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> dict[str, str]:
    return {"report": "Sunny."}
""",
    run=_UVICORN,
    run_factory="uvicorn --factory {target}",
    imports="from fastapi.testclient import TestClient",
    client="TestClient({app})",
    lines="""\
from faregate.fastapi import PaywallMiddleware, paid
from fastapi import Depends

{app}.add_middleware(PaywallMiddleware)

@{app}.get("/{route}", dependencies=[Depends(paid("daily_report"))])
async def {function}() -> dict[str, str]:
    return {{"report": "Sunny."}}
""",
)

_STARLETTE: Final = Template(
    title="Starlette",
    package="starlette",
    app="""
import logging

from faregate.starlette import PaywallMiddleware, paid
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

# A line for each sale, on standard error.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


@paid("daily_report")
async def report(request: Request) -> JSONResponse:
    return JSONResponse({"report": "Sunny."})


app = Starlette(routes=[Route("/report", report)], middleware=[Middleware(PaywallMiddleware)])
""",
    run=_UVICORN,
    run_factory="uvicorn --factory {target}",
    imports=_TEST_CLIENT,
    client="TestClient({app})",
    lines="""\
from faregate.starlette import PaywallMiddleware, paid
from starlette.requests import Request
from starlette.responses import JSONResponse

@paid("daily_report")
async def {function}(request: Request) -> JSONResponse:
    return JSONResponse({{"report": "Sunny."}})

{app}.add_route("/{route}", {function})
{app}.add_middleware(PaywallMiddleware)
""",
)

_FLASK: Final = Template(
    title="Flask",
    package="flask",
    app="""
import logging

from faregate.flask import Faregate
from flask import Flask

# A line for each sale, on standard error.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

app = Flask(__name__)
paywall = Faregate(app)


@app.get("/report")
@paywall.paid("daily_report")
def report() -> dict[str, str]:
    return {"report": "Sunny."}
""",
    run="flask --app {target} run --port 8000",
    run_factory="flask --app {target} run --port 8000",
    client="{app}.test_client()",
    lines="""\
from faregate.flask import Faregate

paywall = Faregate({app})

@{app}.get("/{route}")
@paywall.paid("daily_report")
def {function}() -> dict[str, str]:
    return {{"report": "Sunny."}}
""",
)

_DJANGO: Final = Template(
    title="Django",
    package="django",
    app="""
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, JsonResponse
from django.urls import path
from faregate.django import paid

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    INSTALLED_APPS=["faregate.django"],
    LOGGING={  # a line for each sale, on standard error
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {"faregate": {"handlers": ["console"], "level": "INFO"}},
    },
    MIDDLEWARE=["faregate.django.PaywallMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "for this machine only"),
)
django.setup()


@paid("daily_report")
def report(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"report": "Sunny."})


urlpatterns = [path("report", report)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
""",
    run="python {script} runserver 8000",
    imports="from django.test import Client, override_settings",
    client="Client()",
    lines="""\
# {file}
INSTALLED_APPS += ["faregate.django"]
MIDDLEWARE += ["faregate.django.PaywallMiddleware"]  # the last one

# your urls.py
from django.http import HttpRequest, JsonResponse
from django.urls import path
from faregate.django import paid

@paid("daily_report")
def {function}(request: HttpRequest) -> JsonResponse:
    return JsonResponse({{"report": "Sunny."}})

urlpatterns += [path("{route}", {function})]
""",
)

_ASGI: Final = Template(
    title="ASGI",
    package="starlette",  # for the test client
    app="""
import logging
from typing import Any

from faregate.asgi import PaywallMiddleware

# A line for each sale, on standard error.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


async def reports(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"Sunny."})


app = PaywallMiddleware(reports, offers={"/report": "daily_report"})
""",
    run=_UVICORN,
    imports=_TEST_CLIENT,
    client="TestClient({app})",
)

_WSGI: Final = Template(
    title="WSGI",
    package="werkzeug",
    app="""
import logging
import os
from collections.abc import Iterable
from typing import Any

from faregate.wsgi import PaywallMiddleware
from werkzeug.serving import run_simple

# A line for each sale, on standard error.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def reports(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Sunny."]


app = PaywallMiddleware(reports, offers={"/report": "daily_report"})

if __name__ == "__main__":
    run_simple("127.0.0.1", int(os.environ.get("PORT", "8000")), app, threaded=True)
""",
    run="python {script}",
    imports="import httpx",
    client='httpx.Client(transport=httpx.WSGITransport({app}), base_url="http://shop")',
)

_MCP: Final = Template(
    title="MCP",
    package="mcp",
    app="""
from faregate.mcp import add_paywall, paid
from mcp.server import MCPServer

server = MCPServer("shop")
add_paywall(server)


@server.tool()
@paid("daily_report")
def report() -> str:
    \"\"\"The report of today.\"\"\"
    return "Sunny."


app = server.streamable_http_app()

if __name__ == "__main__":
    server.run()
""",
    run=_UVICORN,
    run_factory="uvicorn --factory {target}",
    client="Client({app})",
    imports="""\
import base64
import json

import pytest
from faregate.emulator import Wallet
from mcp.client import Client""",
    lines="""\
from faregate.mcp import add_paywall, paid

add_paywall({app})

@{app}.tool()
@paid("daily_report")
def {function}() -> str:
    \"\"\"The report of today.\"\"\"
    return "Sunny."
""",
)

TEMPLATES: Final = {
    "fastapi": _FASTAPI,
    "starlette": _STARLETTE,
    "flask": _FLASK,
    "django": _DJANGO,
    "asgi": _ASGI,
    "wsgi": _WSGI,
    "mcp": _MCP,
}

_TEST: Final = """
client = {client}


{decorator}def test_a_report_is_sold(payer, emulator):
    assert payer.ask(client, "/{route}").status == 402  # nothing is given without a payment
    bought = payer.get(client, "/{route}")
    assert bought.paid
    assert payer.again(bought).body == bought.body  # a lost response is given again,
    assert len(emulator.calls("complete", status=200)) == 1  # and paid once
"""

_MCP_TEST: Final = """

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_report_is_sold(emulator):
    async with {client} as client:
        unpaid = await client.call_tool("{function}", {{}})
        assert unpaid.is_error  # nothing is given without a payment
        instructions = base64.b64encode(unpaid.content[0].text.encode()).decode()
        meta = {{"x402/payment": json.loads(base64.b64decode(Wallet().pay(instructions)))}}
        bought = await client.call_tool("{function}", {{}}, meta=meta)
        again = await client.call_tool("{function}", {{}}, meta=meta)
    assert bought.meta["x402/payment-response"]["success"]
    assert again.content == bought.content  # a lost response is given again,
    assert len(emulator.calls("complete", status=200)) == 1  # and paid once
"""


_UNPAID: Final = "# nothing is given without a payment\n"
_PRICED: Final = '["accepts"][0]["amount"] == "50000"  # the price in the code\n'
_IN_CODE: Final = (
    (", which the emulator sells for", ", for"),
    ('paid("daily_report")', 'paid("daily_report", price="0.05 USDC")'),
    ('"/report": "daily_report"', '"/report": Offer("daily_report", price="0.05 USDC")'),
    ("from faregate.asgi", "from faregate import Offer\nfrom faregate.asgi"),
    ("from faregate.wsgi", "from faregate import Offer\nfrom faregate.wsgi"),
)


def add_prices(code: str) -> str:
    """Write the price into the code of an application, and check it in the code of a test."""
    for text, priced in _IN_CODE:
        code = code.replace(text, priced)
    if "payer.ask(" in code:
        [ask] = re.findall(r"payer\.ask\(.*?\)", code)
        return code.replace(_UNPAID, f"{_UNPAID}    assert {ask}.instructions{_PRICED}")
    return code.replace(_UNPAID, f"{_UNPAID}        assert json.loads(unpaid.content[0].text){_PRICED}")


def format_app(framework: str) -> str:
    docstring = _DOCSTRING.replace("GET /report", "the tool report") if framework == "mcp" else _DOCSTRING
    return docstring + TEMPLATES[framework].app


def format_test(framework: str, module: str, name: str, place: Place, *, is_factory: bool) -> str:
    """The test of an application. `module` is that of Django's settings if `name` is empty."""
    template = TEMPLATES[framework]
    if framework == "django":
        return _format_django_test(module, place, has_settings_module=not name)
    client = template.client.format(app=f"{name}()" if is_factory else name)
    imported = f"from {module} import {name}"
    if framework == "mcp":
        test = _MCP_TEST.format(client=client, function=place.function)
        return f"{template.imports}\n{imported}\n{test}"
    imports = [*filter(None, [template.imports]), imported]
    # Modules before names of modules, as import sorters have it.
    imports.sort(key=lambda line: (line.startswith("from"), line))
    return "\n".join(imports) + "\n" + _TEST.format(client=client, decorator="", route=place.route)


def _format_django_test(module: str, place: Place, *, has_settings_module: bool) -> str:
    template = TEMPLATES["django"]
    if has_settings_module:
        head = (
            f"import os\n\nimport django\n{template.imports}\n\n"
            f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{module}")\ndjango.setup()\n'
        )
    else:
        head = f"import {module}  # noqa: F401  (it configures Django)\n{template.imports}\n"
    decorator = '@override_settings(ALLOWED_HOSTS=["testserver"])\n'
    return head + _TEST.format(client=template.client, decorator=decorator, route=place.route)
