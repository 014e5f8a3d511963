"""`examples/wsgi/app.py` under waitress, as its README starts it, paid with the official client."""

from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from examples.demo.stage import DidNotStart, server

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.e2e.payers import PAYERS

FOLDER = Path(__file__).parents[2] / "examples" / "wsgi"
# The README's command; any free port.
COMMAND = ["waitress", "--listen=127.0.0.1:0", "--call", "app:make"]


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))


@pytest.fixture(name="emulator")
def _emulator() -> Emulator:
    return Emulator()


@pytest.fixture(name="seller")
def _seller(emulator: Emulator) -> Generator[str]:
    with serve(emulator) as service:
        environ = {"FAREGATE_BASE_URL": service, "FAREGATE_API_KEY": TEST_KEY}
        with server("the example", COMMAND, environ) as seller:
            yield seller


@pytest.mark.parametrize("library", PAYERS)
def test_a_report_and_a_summary_are_paid_for(seller: str, emulator: Emulator, library: str) -> None:
    payer = PAYERS[library]()
    report = payer.call("GET", f"{seller}/reports/today")
    summary = payer.call("POST", f"{seller}/summary", "one two three four five six")
    assert (report.status_code, report.content) == (200, b"Sunny, with a chance of receipts.")
    assert (summary.status_code, summary.content) == (200, b'"one two three four five')
    assert all("PAYMENT-RESPONSE" in answer.headers for answer in (report, summary))
    completed = [call.status for call in emulator.calls() if call.path.endswith("/complete")]
    assert completed == [200, 200]


def test_what_is_not_there_is_not_charged(seller: str) -> None:
    answer = PAYERS["requests"]().call("GET", f"{seller}/reports/never")
    assert (answer.status_code, "PAYMENT-RESPONSE" in answer.headers) == (404, False)


def test_what_is_free_is_free(seller: str) -> None:
    assert httpx.get(f"{seller}/health").text == "ok"


def test_a_missing_setting_is_told_at_the_start() -> None:
    with pytest.raises(DidNotStart, match="FAREGATE_BASE_URL"), server("the example", COMMAND, {}):
        pass


def test_the_embedded_emulator_is_enough() -> None:
    with server("the example", COMMAND, {"FAREGATE_BASE_URL": "emulator:"}) as seller:
        assert PAYERS["httpx"]().call("GET", f"{seller}/reports/tomorrow").content == b"Rain."
