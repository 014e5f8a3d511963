"""The public names, held; and what importing them may and may not load."""

import subprocess
import sys

import pytest

import faregate
import faregate.asgi
import faregate.django
import faregate.fastapi
import faregate.flask
import faregate.mcp
import faregate.starlette
import faregate.wsgi
from tests.support.public_surface import COMMAND, FILE, describe


def test_the_public_names() -> None:
    assert faregate.__all__ == sorted(faregate.__all__)
    assert all(hasattr(faregate, name) for name in faregate.__all__)
    assert faregate.__all__ == [
        "ApiError",
        "AsyncMerchantClient",
        "BadAnswer",
        "ConfigurationError",
        "FaregateError",
        "InvalidUsage",
        "JournalError",
        "MemoryJournal",
        "MerchantClient",
        "NoAnswer",
        "Offer",
        "Payment",
        "PaymentPage",
        "PaymentTerms",
        "Paywall",
        "Price",
        "ServiceError",
        "SweepReport",
        "Usage",
        "build_llms_text",
        "build_openapi",
    ]


def test_the_public_surface_is_what_was_agreed() -> None:
    message = f"A public signature has changed. If it is to, run {COMMAND}, and look at the difference."
    assert describe().splitlines() == FILE.read_text().splitlines(), message


def test_the_names_of_the_adapters() -> None:
    assert faregate.starlette.__all__ == ["Payment", "PaywallMiddleware", "list_routes", "paid"]
    assert faregate.fastapi.__all__ == [
        "Payment",
        "PaywallMiddleware",
        "RequirePayment",
        "add_openapi",
        "list_routes",
        "paid",
    ]
    assert faregate.flask.__all__ == [
        "Faregate",
        "PayingClient",
        "Payment",
        "list_routes",
        "payment",
        "payment_event",
    ]
    assert faregate.mcp.__all__ == ["Payment", "PaywallMiddleware", "add_paywall", "list_routes", "paid"]
    assert faregate.asgi.__all__ == ["Payment", "PaywallMiddleware", "Scope", "require_payment"]
    assert faregate.wsgi.__all__ == [
        "Environ",
        "Payment",
        "PaywallMiddleware",
        "on_release",
        "require_payment",
    ]
    assert faregate.django.__all__ == [
        "Payment",
        "PaywallMiddleware",
        "get_payment",
        "paid",
        "paid_include",
        "payment_event",
    ]


@pytest.mark.parametrize(
    ("module", "stays_out"),
    [
        ("faregate", "starlette fastapi flask django eth_account uvicorn"),
        ("faregate.asgi", "starlette fastapi werkzeug flask django eth_account uvicorn"),
        ("faregate.wsgi", "starlette fastapi flask django eth_account uvicorn"),
        ("faregate.django", "starlette fastapi flask werkzeug eth_account uvicorn"),
        ("faregate.flask", "starlette fastapi django eth_account uvicorn"),
        ("faregate.starlette", "fastapi werkzeug flask django eth_account uvicorn"),
        ("faregate.fastapi", "werkzeug flask django eth_account"),
        ("faregate.mcp", "fastapi werkzeug flask django eth_account"),
        ("faregate.core.flow", "httpx asyncio threading socket pydantic starlette"),
        ("faregate.core.driver", "httpx asyncio threading socket pydantic starlette"),
    ],
)
def test_importing_loads_no_more_than_it_needs(module: str, stays_out: str) -> None:
    """`faregate` itself imports the client, so the core is asked without its package's own import."""
    code = f"""
import importlib.machinery, sys, types
if {module in ("faregate.core.flow", "faregate.core.driver")}:
    package = types.ModuleType("faregate")
    package.__path__ = [{faregate.__path__[0]!r}]
    sys.modules["faregate"] = package
import {module}
loaded = [name for name in {stays_out.split()!r} if name in sys.modules]
sys.exit(f"{module} loads {{loaded}}" if loaded else 0)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


MISSING = {
    "starlette": "starlette",
    "fastapi": "fastapi",
    "wsgi": "werkzeug",
    "flask": "flask",
    "django": "django",
    "emulator": "eth_keys",
}


OPEN = "import faregate; faregate.Paywall(base_url='emulator:', journal='{}', environ={{}})"
OF_JOURNALS = [
    (
        "cryptography",
        "import faregate.journals.sqlite",
        "ModuleNotFoundError: A stored journal needs cryptography: pip install 'faregate[sqlite]'",
    ),
    (
        "cryptography",
        OPEN.format("sqlite:///x"),
        "ConfigurationError: journal is sqlite:..., which needs more packages: "
        "pip install 'faregate[sqlite]'",
    ),
    (
        "psycopg",
        "import faregate.journals.postgres",
        "ModuleNotFoundError: The PostgreSQL journal needs psycopg: pip install 'faregate[postgres]'",
    ),
    (
        "psycopg",
        OPEN.format("postgresql://h/d"),
        "ConfigurationError: journal is postgresql:..., which needs more packages: "
        "pip install 'faregate[postgres]'",
    ),
    ("redis", "import faregate.journals.redis", "journal needs redis: pip install 'faregate["),
    ("cryptography", "import faregate.journals.redis", "journal needs cryptography: pip install 'faregate["),
]


@pytest.mark.parametrize(
    ("absent", "code", "says"),
    [
        *((MISSING[name], f"import faregate.{name}", f"pip install 'faregate[{name}]'") for name in MISSING),
        *OF_JOURNALS,
        (
            "eth_keys",
            OPEN.format("memory:"),
            "ConfigurationError: base_url is emulator:, which needs the emulator's packages: "
            "pip install 'faregate[emulator]'",
        ),
    ],
)
def test_a_missing_extra_says_how_to_get_it(absent: str, code: str, says: str) -> None:
    code = f"import sys; sys.modules[{absent!r}] = None; {code}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert says in found.stderr
