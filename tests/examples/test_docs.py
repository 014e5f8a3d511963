"""What the docs say around their snippets is so."""

import ast
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve
from tests.servers.http import serving
from tests.support.snippets import APPS, ROOT, run

PAYMENT_HEADERS = {"Faregate-Transaction", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Retry-After"}


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    made = Emulator()
    with serve(made) as url:
        monkeypatch.setenv("FAREGATE_BASE_URL", url)
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        yield made


def app_with(page: str, text: str) -> Any:
    """The app of the one snippet on this page that has this text."""
    [snippet] = [one for one in APPS if one.place.startswith(page) and text in one.code]
    return run(snippet.code).app


def proof_for(url: str, method: str = "GET") -> dict[str, str]:
    unpaid = httpx.request(method, url)
    return {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])}


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/files/reports/today", 402),
        ("/files/reports", 402),
        ("/FILES/reports/today", 400),
        ("//files//reports/today", 400),
        ("/FILES/other", 403),
        ("/about/../files/reports/x", 402),
        ("/files/reports;v=1/today", 400),
        ("/files/other", 403),
        ("/about", 200),
    ],
)
def test_a_prefix_is_read_more_widely_than_a_router_does(path: str, status: int) -> None:
    with serving(app_with("docs/adapters/starlette.md", "offers={")) as seller:
        url = httpx.URL(seller).copy_with(raw_path=path.encode())
        answer = httpx.request("GET", url)

    assert answer.status_code == status
    assert ("This is" in answer.text) == (status == 200)


@pytest.mark.usefixtures("emulator")
def test_closed_ground_is_refused_and_not_free() -> None:
    app = app_with("docs/adapters/fastapi.md", "APIRouter")
    app.add_api_route("/weather/added-later", lambda: {"report": "Free?"})
    with serving(app) as seller:
        answer = httpx.get(f"{seller}/weather/added-later")

    assert (answer.status_code, answer.json()["code"]) == (403, "not_for_sale")


@pytest.mark.usefixtures("emulator")
def test_an_offer_on_a_router_may_be_named_again() -> None:
    with serving(app_with("docs/adapters/fastapi.md", "APIRouter")) as seller:
        url = f"{seller}/weather/tomorrow"
        answer = httpx.get(url, headers=proof_for(url))

    assert answer.json()["transaction"].startswith("txn_")


def test_a_report_the_revision_does_not_know_is_failed_work(emulator: Emulator) -> None:
    page = "docs/adapters/fastapi.md"
    [snippet] = [one for one in APPS if one.place.startswith(page) and "token_meter" in one.code]
    wrong = snippet.code.replace("input_tokens=3", "other_tokens=3")
    with serving(run(wrong).app) as seller:
        url = f"{seller}/meter"
        answer = httpx.post(url, headers=proof_for(url, "POST"))

    assert (answer.status_code, answer.json()["code"]) == (500, "invalid_usage")
    assert "PAYMENT-RESPONSE" not in answer.headers


@pytest.mark.usefixtures("emulator")
def test_openapi_speaks_of_the_payment() -> None:
    with serving(app_with("docs/adapters/fastapi.md", "token_meter")) as seller:
        schema = httpx.get(f"{seller}/openapi.json").json()

    operation = schema["paths"]["/meter"]["post"]
    assert {"$ref": "#/components/parameters/PaymentSignature"} in operation["parameters"]
    assert {"200", "202", "402", "409", "503"} <= set(operation["responses"])
    assert "PAYMENT-REQUIRED" in schema["components"]["responses"]["PaymentRequired"]["headers"]
    assert operation["x-payment-info"]["sells"] == "token_meter"


@pytest.mark.usefixtures("emulator")
def test_a_browser_may_read_the_payment_headers() -> None:
    origin = {"Origin": "https://shop.example"}
    asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "payment-signature"}
    with serving(app_with("docs/adapters/starlette.md", "CORSMiddleware")) as seller:
        preflight = httpx.options(f"{seller}/report", headers={**origin, **asks})
        unpaid = httpx.get(f"{seller}/report", headers=origin)

    assert preflight.status_code == 200
    assert "payment-signature" in preflight.headers["access-control-allow-headers"].lower()
    assert unpaid.status_code == 402
    exposed = {name.strip() for name in unpaid.headers["access-control-expose-headers"].split(",")}
    assert exposed == PAYMENT_HEADERS


@pytest.mark.usefixtures("emulator")
def test_the_late_resource_of_the_flow_page() -> None:
    import asyncio

    [snippet] = [one for one in APPS if "three_times" in one.code]
    module = run(snippet.code)
    with serving(module.app) as seller:
        assert asyncio.run(module.three_times(f"{seller}/late")) == [202, 202, 200]


def test_each_error_of_the_settings_page_is_one_of_ours() -> None:
    listed = re.findall(r"^\| `([^`]+)` \| [^|]+ \|$", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    errors = [text for text in listed if " " in text]
    said = _texts_of(ROOT / "src" / "faregate")

    assert len(errors) > 10
    assert [error for error in errors if not any(error in text for text in said)] == []


def _texts_of(package: Path) -> list[str]:
    return [
        node.value
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
