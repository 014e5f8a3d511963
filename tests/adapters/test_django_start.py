"""Mistakes in the setup of a Django project with which no server serves it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MISSING = "the paywall is not in MIDDLEWARE: everything below them would be free"
SHOP = """
import os, sys

import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["faregate.django"], DATABASES={}, ROOT_URLCONF="shop", ALLOWED_HOSTS=["*"],
        MIDDLEWARE=os.environ["SHOP_MIDDLEWARE"].split(), WSGI_APPLICATION="shop.app",
        FAREGATE={"BASE_URL": "emulator:", **eval(os.environ["SHOP_PREFIXES"])},
    )
urlpatterns = [path("reports/x", lambda request: HttpResponse("content"))]


def load_wsgi():
    from django.core.wsgi import get_wsgi_application
    return get_wsgi_application()


def load_asgi():
    from django.core.asgi import get_asgi_application
    return get_asgi_application()


def ask(handler, setup=django.setup):
    setup()
    from django.test import Client
    from django.test.client import AsyncClient
    import asyncio
    try:
        if handler == "wsgi":
            answer = Client().get("/reports/x")
        else:
            answer = asyncio.run(AsyncClient().get("/reports/x"))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print(answer.status_code, answer.content.decode())


def own(get_response):
    from faregate.django import PaywallMiddleware
    return PaywallMiddleware(get_response)


if __name__ == "__main__":
    sys.modules["shop"] = sys.modules["__main__"]
    if sys.argv[1] in ("wsgi", "asgi"):
        ask(sys.argv[1])
    else:
        from django.core.management import execute_from_command_line
        execute_from_command_line(sys.argv)
"""
OFFERS, REFUSE = '{"OFFERS": {"/reports": "daily_report"}}', '{"REFUSE": ["/reports"]}'
COMMON = "django.middleware.common.CommonMiddleware"
PAYWALL = "faregate.django.PaywallMiddleware"
SERVERS = {
    "gunicorn": ["-m", "gunicorn", "--bind", "127.0.0.1:0", "shop:load_wsgi()"],
    "uvicorn": ["-m", "uvicorn", "--port", "0", "--factory", "shop:load_asgi"],
}


def run(
    folder: Path, arguments: list[str], middleware: str, prefixes: str = OFFERS
) -> "subprocess.CompletedProcess[str]":
    (folder / "shop.py").write_text(SHOP)
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environ |= {"SHOP_MIDDLEWARE": middleware, "SHOP_PREFIXES": prefixes}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("prefixes", [OFFERS, REFUSE], ids=["offers", "refuse"])
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_does_not_start_with_prefixes_and_no_paywall(
    server: str, prefixes: str, tmp_path: Path
) -> None:
    done = run(tmp_path, SERVERS[server], COMMON, prefixes)
    assert done.returncode != 0
    assert MISSING in done.stderr


@pytest.mark.parametrize("handler", ["wsgi", "asgi"])
@pytest.mark.parametrize(
    ("middleware", "prefixes", "says"),
    [
        (COMMON, OFFERS, f"ConfigurationError: FAREGATE has OFFERS or REFUSE, and {MISSING}"),
        (COMMON, REFUSE, "ConfigurationError: FAREGATE has"),
        (COMMON, '{"OFFER": {"/reports": "daily_report"}}', "mean OFFERS"),
        (COMMON, "{}", "200 content"),
        (PAYWALL, OFFERS, "402 "),
        ("shop.own", OFFERS, "402 "),
        (PAYWALL, REFUSE, "403 "),
    ],
)
def test_a_process_that_was_set_up_without_the_paywall_answers_no_request(
    handler: str, middleware: str, prefixes: str, says: str, tmp_path: Path
) -> None:
    done = run(tmp_path, ["shop.py", handler], middleware, prefixes)
    assert says in done.stdout, done.stderr


def test_commands_work_without_the_paywall(tmp_path: Path) -> None:
    done = run(tmp_path, ["shop.py", "check"], COMMON)
    assert "faregate.E001" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(tmp_path, ["shop.py", "diffsettings"], COMMON).returncode == 0
