"""`examples/django` as its README starts it, under both protocols, paid with the official client."""

import subprocess
from pathlib import Path
from shutil import copytree

import httpx
import pytest
from examples.demo.servers import DidNotStart, server

from faregate.emulator import Emulator
from tests.e2e.example_servers import preloaded_server
from tests.e2e.payers import PAYERS
from tests.support.command_words import ask_for_text
from tests.support.preloaded import run_preloaded
from tests.support.processes import environment

FOLDER = Path(__file__).parents[2] / "examples" / "django"
# The README's commands; any free port, and more workers.
SERVERS = {
    "gunicorn": ["gunicorn", "--workers", "3", "--bind", "127.0.0.1:0", "shop.wsgi"],
    "uvicorn": ["uvicorn", "--port", "0", "--lifespan", "off", "shop.asgi:application"],
}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("migrated")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
        done = manage("migrate", {"FAREGATE_BASE_URL": "emulator:", "SHOP_FOLDER": str(folder)})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def _settings(migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copytree(migrated, tmp_path, dirs_exist_ok=True)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path))


def manage(command: str, environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    words = command.split()
    if command.startswith("faregate_"):
        words = ask_for_text(words)
    return run_preloaded(["manage.py", *words], environment(**environ), FOLDER)


@pytest.mark.parametrize(("name", "library"), list(zip(SERVERS, PAYERS, strict=True)))
def test_each_kind_of_offer_is_paid_for(
    environ: dict[str, str], emulator: Emulator, name: str, library: str
) -> None:
    payer = PAYERS[library]()
    with server("the example", SERVERS[name], environ) as seller:
        report = payer.call("GET", f"{seller}/report")
        summary = payer.call("GET", f"{seller}/summary?text=one+two+three+four+five+six")
        note = payer.call("GET", f"{seller}/notes/weather")
        missing = payer.call("GET", f"{seller}/notes/never")
        assert httpx.get(f"{seller}/health").json() == {"status": "ok"}
    assert (report.status_code, report.json()) == (200, {"report": "Sunny, with a chance of receipts."})
    assert (summary.status_code, summary.json()) == (200, {"summary": "one two three four five"})
    assert (note.status_code, note.content) == (200, b"Sunny.")
    assert all("PAYMENT-RESPONSE" in answer.headers for answer in (report, summary, note))
    assert (missing.status_code, "PAYMENT-RESPONSE" in missing.headers) == (404, False)
    assert [call.status for call in emulator.calls() if call.path.endswith("/complete")] == [200] * 4


def test_the_commands_of_the_readme(environ: dict[str, str]) -> None:
    said = {
        name: manage(name, environ)
        for name in ("check", "faregate_routes", "faregate_check", "faregate_sweep")
    }
    assert {name: one.returncode for name, one in said.items()} == dict.fromkeys(said, 0), said
    assert "3 paid, 1 free, 0 refused" in said["faregate_routes"].stdout
    assert "All is well: 2 offers" in said["faregate_check"].stdout


def test_a_missing_setting_is_named_at_the_start_and_by_check(environ: dict[str, str]) -> None:
    told = manage("check", {})
    assert (told.returncode, "(faregate.E002)" in told.stderr) == (1, True)
    with (
        pytest.raises(DidNotStart, match=r"Set FAREGATE\['BASE_URL'\] to"),
        preloaded_server("the example", SERVERS["uvicorn"], {}),
    ):
        pass
