"""`examples/wsgi` and `examples/flask` as their READMEs start them, paid with the official client."""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
from examples.demo.servers import DidNotStart, server

from faregate.emulator import Emulator
from tests.e2e.example_servers import preloaded_server
from tests.e2e.payers import PAYERS
from tests.support.preloaded import run_preloaded
from tests.support.processes import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
# The READMEs' commands; any free port.
COMMANDS = {
    "waitress": ("wsgi", ["waitress", "--listen=127.0.0.1:0", "--call", "app:make"]),
    "flask": ("flask", ["flask", "--app", "app", "run", "--port", "0"]),
    "gunicorn": ("flask", ["gunicorn", "--workers", "4", "--bind", "127.0.0.1:0", "app:create_app()"]),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    example, words = COMMANDS[request.param]
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES / example))
    return words


def get_text(body: bytes, name: str) -> Any:
    """Of plain text, or of the field `name`."""
    return json.loads(body)[name] if body.startswith(b"{") else body.decode()


@pytest.mark.parametrize(("command", "library"), list(zip(COMMANDS, cycle(PAYERS))), indirect=["command"])
def test_a_report_and_a_summary_are_paid_for(
    command: list[str], environ: dict[str, str], emulator: Emulator, tmp_path: Path, library: str
) -> None:
    payer = PAYERS[library]()
    if command[0] != "waitress":  # one process
        environ["FAREGATE_JOURNAL"] = f"sqlite:///{tmp_path / 'journal.db'}"
    with server("the example", command, environ) as seller:
        report = payer.call("GET", f"{seller}/reports/today")
        summary = payer.call("POST", f"{seller}/summary", "one two three four five six")
        missing = payer.call("GET", f"{seller}/reports/never")
        health = httpx.get(f"{seller}/health")
        listed = httpx.get(f"{seller}/reports/")
    assert (report.status_code, summary.status_code, health.status_code) == (200, 200, 200)
    assert get_text(report.content, "report") == "Sunny, with a chance of receipts."
    assert get_text(summary.content, "summary") == '"one two three four five'
    assert get_text(health.content, "status") == "ok"
    assert all("PAYMENT-RESPONSE" in answer.headers for answer in (report, summary))
    assert (missing.status_code, "PAYMENT-RESPONSE" in missing.headers) == (404, False)
    if command[0] != "waitress":
        assert listed.json() == ["today", "tomorrow"]
    assert [call.status for call in emulator.calls() if call.path.endswith("/complete")] == [200, 200, 200]


@pytest.mark.parametrize("command", ["waitress", "flask"], indirect=True)
def test_the_embedded_emulator_is_enough(command: list[str]) -> None:
    with preloaded_server("the example", command, {"FAREGATE_BASE_URL": "emulator:"}) as seller:
        report = PAYERS["httpx"]().call("GET", f"{seller}/reports/tomorrow")
    assert get_text(report.content, "report") == "Rain."


@pytest.mark.parametrize("command", ["waitress", "flask"], indirect=True)
def test_a_missing_setting_is_named_at_the_start(command: list[str]) -> None:
    with pytest.raises(DidNotStart, match="FAREGATE_BASE_URL"), preloaded_server("the example", command, {}):
        pass


@pytest.mark.parametrize("command", ["flask"], indirect=True)
@pytest.mark.parametrize(
    ("asks", "says"), [("routes", "2 paid, 3 free, 0 refused"), ("check", "All is well: 2 offers")]
)
def test_what_it_sells_can_be_asked(command: list[str], asks: str, says: str) -> None:
    words = ["-m", *command[:3], "faregate", asks, "--text"]
    told = run_preloaded(words, environment(FAREGATE_BASE_URL="emulator:"), EXAMPLES / command[0])
    assert told.returncode == 0, told.stderr
    assert says in told.stdout
