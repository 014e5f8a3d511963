"""`examples/flask/app.py` as its README starts it, paid with the official client."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from examples.demo.stage import DidNotStart, server

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.e2e.payers import PAYERS

FOLDER = Path(__file__).parents[2] / "examples" / "flask"
# The README's commands; any free port.
FLASK = ["flask", "--app", "app", "run", "--port", "0"]
GUNICORN = ["gunicorn", "--workers", "4", "--bind", "127.0.0.1:0", "app:create_app()"]


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))


@pytest.fixture(name="emulator")
def _emulator() -> Emulator:
    return Emulator()


@pytest.fixture(name="environ")
def _environ(emulator: Emulator, tmp_path: Path) -> Generator[dict[str, str]]:
    with serve(emulator) as service:
        yield {
            "FAREGATE_BASE_URL": service,
            "FAREGATE_API_KEY": TEST_KEY,
            "FAREGATE_JOURNAL": f"sqlite:{tmp_path / 'journal.db'}",
        }


@pytest.mark.parametrize("command", [FLASK, GUNICORN], ids=lambda command: command[0])
@pytest.mark.parametrize("library", PAYERS)
def test_a_report_and_a_summary_are_paid_for(
    environ: dict[str, str], emulator: Emulator, command: list[str], library: str
) -> None:
    payer = PAYERS[library]()
    with server("the example", command, environ) as seller:
        report = payer.call("GET", f"{seller}/reports/today")
        summary = payer.call("POST", f"{seller}/summary", "one two three four five six")
        missing = payer.call("GET", f"{seller}/reports/never")
        free = [httpx.get(f"{seller}/{path}").json() for path in ("reports/", "health")]
    assert (report.status_code, report.json()) == (200, {"report": "Sunny, with a chance of receipts."})
    assert (summary.status_code, summary.json()) == (200, {"summary": '"one two three four five'})
    assert (missing.status_code, "PAYMENT-RESPONSE" in missing.headers) == (404, False)
    assert all("PAYMENT-RESPONSE" in answer.headers for answer in (report, summary))
    assert free == [["today", "tomorrow"], {"status": "ok"}]
    assert [call.status for call in emulator.calls() if call.path.endswith("/complete")] == [200, 200, 200]


def test_the_embedded_emulator_is_enough() -> None:
    with server("the example", FLASK, {"FAREGATE_BASE_URL": "emulator:"}) as seller:
        assert PAYERS["httpx"]().call("GET", f"{seller}/reports/tomorrow").json() == {"report": "Rain."}


def test_a_missing_setting_is_told_at_the_start() -> None:
    with pytest.raises(DidNotStart, match="FAREGATE_BASE_URL"), server("the example", FLASK, {}):
        pass


@pytest.mark.parametrize(
    ("command", "says"), [("routes", "2 paid, 3 free, 0 refused"), ("check", "All is well: 2 offers")]
)
def test_what_it_sells_can_be_asked(command: str, says: str) -> None:
    asked = [sys.executable, "-m", "flask", "--app", "app", "faregate", command]
    environ = {**os.environ, "FAREGATE_BASE_URL": "emulator:"}
    told = subprocess.run(asked, env=environ, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert says in told.stdout
