"""`faregate` reads `.env` of the current folder, as Flask and uvicorn do."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from faregate.emulator import Emulator
from faregate.emulator.server import serve
from tests.support.terminals import in_pipe

SECRET = "svc_test_hidden"
UNSET = {"FAREGATE_BASE_URL": "", "FAREGATE_API_KEY": ""}


@pytest.fixture(scope="module")
def service() -> Generator[str]:
    with serve(Emulator()) as url:
        yield url


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".env"


def test_a_command_takes_its_settings_from_the_file(service: str, env_file: Path) -> None:
    env_file.write_text(f"# ours\nFAREGATE_BASE_URL={service}\nexport FAREGATE_API_KEY='svc_test_emulator'\n")
    ran = in_pipe(["resources"], {})
    assert (ran.status, ran.stderr) == (0, "")
    assert "daily_report" in ran.stdout or "Daily report" in ran.stdout


def test_the_environment_wins(service: str, env_file: Path) -> None:
    env_file.write_text(f"FAREGATE_BASE_URL={service}\nFAREGATE_API_KEY={SECRET}\n")
    assert in_pipe(["resources"], {}).status == 1
    assert in_pipe(["resources"], {"FAREGATE_API_KEY": "svc_test_emulator"}).status == 0


def test_an_application_gets_all_variables_of_the_file(env_file: Path) -> None:
    """As under `uvicorn --env-file .env`: its own may be among them."""
    env_file.write_text("SHOP_PREFIX=/books\nFAREGATE_BASE_URL=emulator:\n")
    (env_file.parent / "bookshop.py").write_text(
        "import os\nfrom faregate.wsgi import PaywallMiddleware\n"
        "offers = {os.environ['SHOP_PREFIX']: 'daily_report'}\n"
        "app = PaywallMiddleware(lambda environ, start: [], offers=offers)\n"
    )
    assert "/books" in in_pipe(["routes", "bookshop:app"], {}).stdout


@pytest.mark.parametrize(
    "content",
    [f"FAREGATE_API_KEY={SECRET}\xff\n".encode("latin-1"), f"FAREGATE_API_KEY={SECRET}\0\n".encode()],
)
def test_a_file_that_is_no_text_is_a_message_without_its_values(content: bytes, env_file: Path) -> None:
    env_file.write_bytes(content)
    ran = in_pipe(["resources"], {})
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr == "faregate: .env cannot be read: it is not UTF-8, or has a NUL byte.\n"


def test_a_line_that_is_no_setting_is_named_by_its_number(env_file: Path) -> None:
    env_file.write_text(f"FAREGATE_BASE_URL=emulator:\n'{SECRET}\n")
    # A process of its own: here, pytest takes what is logged.
    words = [sys.executable, "-m", "faregate", "resources"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    assert said.startswith("python-dotenv could not parse statement starting at line 2\n")
    assert SECRET not in said


def test_a_folder_of_that_name_is_left_alone(env_file: Path) -> None:
    env_file.mkdir()
    ran = in_pipe(["resources"], {})
    assert (ran.status, len(ran.stderr.splitlines())) == (1, 1)
