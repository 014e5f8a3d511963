"""The fixtures in ways that the page of recipes does not show, and what fails a test that used them."""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from flask import Flask

from faregate import Paywall
from faregate.emulator import TEST_KEY, Emulator, Revision
from faregate.errors import ConfigurationError
from faregate.fastapi import PaywallMiddleware, paid
from faregate.flask import Faregate
from faregate.testing import AsyncPayer, Payer, use_emulator
from faregate.wsgi import PaywallMiddleware as WSGIMiddleware
from tests.testing.suites import run

APP = FastAPI()
APP.add_middleware(PaywallMiddleware)


@APP.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> dict[str, str]:
    return {"report": "Sunny."}


CLIENT = TestClient(APP)


# An app made at import begins anew with each test


def test_first_a_price_is_raised(payer: Payer, emulator: Emulator) -> None:
    emulator.publish("daily_report", Revision(amount=70_000))
    answer = payer.get(CLIENT, "/report")
    assert answer.payment is not None
    assert answer.payment["amount"] == "70000"


def test_then_the_price_is_the_old_one_and_nothing_is_left(payer: Payer, emulator: Emulator) -> None:
    answer = payer.get(CLIENT, "/report")
    assert answer.payment is not None
    assert answer.payment["amount"] == "50000"
    assert len(emulator.calls()) == 4


def test_what_one_emulator_left_open_is_no_business_of_the_next(payer: Payer, emulator: Emulator) -> None:
    assert payer("slow").get(CLIENT, "/report").status == 202
    [middleware] = [layer for layer in _layers(APP) if isinstance(layer, PaywallMiddleware)]
    assert len(middleware.paywall.journal.list_holds(10)) == 1  # type: ignore[attr-defined]
    with use_emulator(Emulator()):
        assert middleware.paywall.sweep().looked_at == 0


def _layers(app: FastAPI) -> list[object]:
    found: list[object] = [app.middleware_stack]
    while (inner := getattr(found[-1], "app", None)) is not None:
        found.append(inner)
    return found


# What is set meanwhile


def test_no_other_service_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "https://merchant.example")
    monkeypatch.setenv("FAREGATE_API_KEY", "svc_live_real")
    with use_emulator(Emulator()):
        assert Paywall().settings.embedded
        assert "FAREGATE_API_KEY" not in os.environ
    assert os.environ["FAREGATE_BASE_URL"] == "https://merchant.example"
    assert os.environ["FAREGATE_API_KEY"] == "svc_live_real"


def test_the_paywall_is_of_this_emulator(paywall: Paywall, emulator: Emulator, payer: Payer) -> None:
    app = PaywallMiddleware(APP.router, paywall, offers={"/everything": "text_summary"})
    answer = payer.ask(TestClient(app), "/everything/is")
    assert answer.instructions is not None
    assert answer.instructions["resource"]["url"] == "https://seller.example/everything/is"
    assert [call.resource for call in emulator.calls("access")] == ["text_summary"]


def flask_shop(paywall: Paywall) -> Any:
    app, extension = Flask(__name__), Faregate()

    @app.get("/report")
    @extension.paid("daily_report")
    def report() -> dict[str, str]:
        return {"report": "Sunny."}

    extension.init_app(app, paywall)
    return app.test_client()


def wsgi_shop(paywall: Paywall) -> Any:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"report": "Sunny."}']

    sold = WSGIMiddleware(app, paywall, offers={"/report": "daily_report"})
    return httpx.Client(transport=httpx.WSGITransport(sold), base_url="http://testserver")


@pytest.mark.parametrize("shop", [flask_shop, wsgi_shop])
def test_a_door_is_given_the_paywall(shop: Callable[[Paywall], Any], paywall: Paywall, payer: Payer) -> None:
    client = shop(paywall)
    answer = payer.get(client, "/report")
    assert (answer.paid, answer.json) == (True, {"report": "Sunny."})
    assert payer.again(answer).body == answer.body
    assert payer.underpaid(client, "/report").status == 402


def test_each_test_has_a_tenant_behind_one_server(
    emulator_url: str, emulator_key: str, emulator: Emulator
) -> None:
    with httpx.Client(base_url=f"{emulator_url}/merchant/v1", trust_env=False) as client:
        answers = [
            client.get("/contracts", headers={"Authorization": f"Bearer {key}"})
            for key in (emulator_key, TEST_KEY, emulator_key + "-other")
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len(emulator.calls()) == 1


# Payers


@pytest.mark.anyio
async def test_both_payers_keep_their_answers_together(
    payer: Payer, async_payer: AsyncPayer, emulator: Emulator
) -> None:
    transport = httpx.ASGITransport(APP)
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        first = await async_payer.get(client, "/report")
        assert (await async_payer.again(first)).body == first.body
        assert (await async_payer("poor").get(client, "/report")).status == 402
        assert (await async_payer.forged(client, "/report")).status == 402
    assert payer.answers == async_payer.answers
    assert len(payer.answers) == 7
    emulator.check_invariants(payer.answers)


def test_own_headers_travel_with_the_payment(payer: Payer, paywall: Paywall) -> None:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=paywall)

    @app.post("/echo", dependencies=[Depends(paid("daily_report"))])
    async def echo(body: dict[str, int]) -> dict[str, int]:
        return body

    answer = payer.post(TestClient(app), "/echo", json={"a": 1}, headers={"X-Mine": "1"})
    assert (answer.paid, answer.json) == (True, {"a": 1})
    assert answer.header("payment-response") == answer.header("PAYMENT-RESPONSE") is not None


def test_an_answer_shows_itself_without_its_proof(payer: Payer) -> None:
    answer = payer.get(CLIENT, "/report")
    assert repr(answer) == """<200 GET /report, paid: b'{"report":"Sunny."}'>"""


def test_what_cannot_be_done_is_an_error(payer: Payer) -> None:
    with pytest.raises(ConfigurationError, match="there is no test payer 'rich'"):
        payer("rich")
    with pytest.raises(ConfigurationError, match="nothing was paid for <402 GET /report"):
        payer.again(payer.ask(CLIENT, "/report"))


# Options


@pytest.mark.faregate(clock=datetime(2027, 1, 1, tzinfo=UTC), seed="x")
def test_a_moment_and_a_seed(emulator: Emulator, payer: Payer) -> None:
    assert emulator.clock() == datetime(2027, 1, 1, tzinfo=UTC)
    assert payer.get(CLIENT, "/report").transaction == "txn_01a2ce8bd4007f13b524f58dea32cd26"


@pytest.mark.faregate(clock="frozen")
def test_a_clock_that_stands_still_at_the_present(emulator: Emulator, payer: Payer) -> None:
    before = emulator.clock()
    assert payer.get(CLIENT, "/report").paid
    assert emulator.clock() == before
    assert abs((before - datetime.now(UTC)).total_seconds()) < 60


FAILING = '''
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient
from faregate.fastapi import PaywallMiddleware, paid

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> str:
    return "Sunny."

client = TestClient(app)

class Cheap:
    """Gives the result to whoever sends anything."""
    def get(self, path, headers=None):
        response = client.get(path)
        if headers:
            response.status_code = 200
        return response

@pytest.mark.faregate(strict=True)
def test_strict(payer):
    payer.ask(client, "/report")

@pytest.mark.faregate(strict=True)
def test_strict_and_expected(payer, emulator):
    emulator.expect("access", status=402)
    payer.ask(client, "/report")

def test_expected(payer, emulator):
    emulator.expect("complete", resource="daily_report")
    payer.ask(client, "/report")

def test_invariants(payer):
    payer.get(Cheap(), "/report")

def test_own_failure_is_reported_first(emulator):
    emulator.expect("complete")
    assert 1 == 2

@pytest.mark.faregate(clock="fast")
def test_clock(emulator): ...

@pytest.mark.faregate(speed=1)
def test_unknown(emulator): ...
'''


def test_what_fails_a_test(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfaregate_invariants = true\n")
    (tmp_path / "test_it.py").write_text(FAILING)
    printed = run(tmp_path)
    told = dict(re.findall(r"^((?:PASSED|FAILED|ERROR) test_it.py::\w+)(.*)", printed, re.MULTILINE))

    assert set(told) == {
        "FAILED test_it.py::test_strict",
        "PASSED test_it.py::test_strict_and_expected",
        "FAILED test_it.py::test_expected",
        "FAILED test_it.py::test_invariants",
        "FAILED test_it.py::test_own_failure_is_reported_first",
        "ERROR test_it.py::test_clock",
        "ERROR test_it.py::test_unknown",
    }, printed
    assert "<2: POST /merchant/v1/access -> 402 · resource daily_report>" in printed
    assert "complete(resource='daily_report') came 0 of 1 times" in printed
    assert "a result (200) left before the service proved its payment" in printed
    assert "assert 1 == 2" in told["FAILED test_it.py::test_own_failure_is_reported_first"]
    assert "has no option 'speed'; its options are clock, seed, strict, invariants" in printed
    assert 'must be "real", "frozen" or a datetime, not \'fast\'' in printed


# Fixtures of the user's own that have our short names

SHOP = """
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from faregate.fastapi import PaywallMiddleware, paid

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report():
    return {"report": "Sunny."}

client = TestClient(app)
"""


OWN = """
@pytest.fixture(scope={scope!r})
def {name}():
    return "an Android phone"

def test_with_the_short_name(payer, {name}):
    assert payer.get(client, "/report").paid
    assert {name} == "an Android phone"

def test_with_the_long_name(faregate_payer, faregate_emulator, faregate_paywall, {name}):
    assert faregate_payer.get(client, "/report").paid
    assert len(faregate_emulator.calls("complete", status=200)) == 1

def test_the_others(async_payer, faregate_emulator_url, faregate_emulator_key, {name}):
    assert faregate_emulator_url.startswith("http://127.0.0.1:")
    assert faregate_emulator_key.startswith("svc_test_")
"""
ACCOUNT = """
import pytest
from faregate.emulator import builtin_account

@pytest.fixture(scope={scope!r})
def {name}():
    return builtin_account().model_copy(update={{"default_balance": 7}})

def test_it_is_sold(emulator, payer):
    assert emulator.account.default_balance == emulator.balance(payer.address) == 7
"""
SAME = "def test_{name}({name}, faregate_{name}):\n    assert {name} is faregate_{name}\n\n"
NAMES = ("emulator", "emulator_key", "emulator_url", "paywall", "payer", "async_payer")
FILES = {
    **{
        f"own_{name}_{scope}": (SHOP + OWN.format(name=name, scope=scope), 3)
        for name, scope in (
            ("emulator", "function"),
            ("emulator", "session"),
            ("emulator_account", "session"),
            ("paywall", "function"),
        )
    },
    **{
        f"sold_{name}_{scope}": (ACCOUNT.format(name=name, scope=scope), 1)
        for name, scope in (
            ("emulator_account", "function"),
            ("emulator_account", "session"),
            ("faregate_emulator_account", "function"),
        )
    },
    "same": ("".join(SAME.format(name=name) for name in NAMES), len(NAMES)),
}
"""Files of a user's project, and how many tests each has. Fixtures that override ours break no other, either
name says what is sold, and the short names are the same fixtures."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("project")
    for name, (text, _) in FILES.items():
        (folder / f"test_{name}.py").write_text(text)
    return run(folder, "-W", "ignore")


@pytest.mark.parametrize("name", FILES)
def test_short_and_long_names(name: str, printed: str) -> None:
    assert len(re.findall(rf"^PASSED test_{name}\.py::", printed, re.MULTILINE)) == FILES[name][1], printed
