"""What a framework's module may not load: a seller's process would pay for it at each start."""

import subprocess
import sys

import pytest

HEAVY = (
    # They are loaded when the first call is made, when a journal is stored, or for a tool.
    *("cryptography", "email.message", "httpcore", "httpx", "psycopg", "redis", "sqlite3", "trio"),
    *("jinja2", "pydantic", "pydantic_core", "pdb", "unittest", "flask.testing", "werkzeug.test"),
    *("faregate.emulator", "faregate.service", "faregate.testing", "faregate.pay", "faregate.probe"),
    *(
        "faregate.merchant.models",
        "faregate.merchant.openapi",
        "faregate.journals.persistent",
        "faregate.cli",
    ),
)
FRAMEWORKS = {
    "starlette": "starlette.applications, starlette.responses, starlette.requests, starlette.routing",
    "fastapi": "fastapi",
    "flask": "flask",
    "django": "django.http, django.conf",
    "asgi": "asyncio",
    "wsgi": "werkzeug",
}
BLOCKING = {"flask", "wsgi"}
"""They serve without an event loop."""
MOST = 110
"""Modules of ours and others', beyond the framework's. A new one must be worth its milliseconds."""

LOADED = """
import sys
import {framework}
before = set(sys.modules)
import faregate.{name}
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_loads_nothing_heavy(name: str) -> None:
    code = LOADED.format(framework=FRAMEWORKS[name], name=name)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(ran.stdout.split())
    assert loaded & {*HEAVY, *(("asyncio", "anyio") if name in BLOCKING else ())} == set()
    assert len({module for module in loaded if module.startswith("faregate")}) <= MOST
