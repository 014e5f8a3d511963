"""The README's commands run word for word, in a fresh virtual environment, with faregate from a built wheel.

Two things are replaced: the ports, and the checkout by the wheel, as the README says. pip installs
for real but without an index: it finds what the named extras bring, and fails for anything else.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.virtualenvs import brought_by, link_packages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
EXTRAS = "[all]"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
SELLER = "http://127.0.0.1:8000"


def commands(block: str) -> list[str]:
    return [line.partition("  #")[0].strip() for line in block.splitlines() if line.strip()]


def snippet(part: str) -> str:
    found: list[str] = [one for one in SNIPPETS if part in one]
    assert len(found) == 1, part
    return found[0]


class Terminal:
    """A directory with `shop.py` and `test_shop.py`, in which commands are typed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "bin").mkdir()
        (place / "bin" / "python").symlink_to(Path(sys.executable).resolve())
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FAREGATE", "PYTEST", "PYTHON"))
        }
        path = f"{place}/bin{os.pathsep}{os.environ['PATH']}"
        self._environ = {
            **kept,
            "PATH": path,
            "PIP_NO_INDEX": "1",
            "UVICORN_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, command: str) -> str:
        done = subprocess.run(
            self._typed(command),
            cwd=self.place,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, command: str) -> Generator[str]:
        """A command that goes on until it is ended; gives the address that it says."""
        log = self.place / "log"
        with log.open("w+") as said:
            process = subprocess.Popen(
                self._typed(command),
                cwd=self.place,
                env=self._environ,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
            try:
                yield self._address(process, log, command)
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)

    def _address(self, process: "subprocess.Popen[bytes]", log: Path, command: str) -> str:
        give_up = time.monotonic() + 60
        while (found := _ADDRESS.search(log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > give_up:
                pytest.fail(f"{command} said no address:\n{log.read_text()}")
            time.sleep(0.05)
        return found.group()

    def _typed(self, command: str) -> list[str]:
        active = ". .venv/bin/activate\n" if (self.place / ".venv").exists() else ""
        return ["sh", "-c", active + command]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    [built] = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Terminal:
    """After the README's installation."""
    place = tmp_path_factory.mktemp("shop")
    terminal = Terminal(place)
    make, install = commands(BLOCKS[1])
    terminal.run(make)
    _, _, _, *others = shlex.split(install)
    brought = brought_by(f"faregate{EXTRAS}", *others) - {"faregate"}
    link_packages(place / ".venv", brought)
    said = terminal.run(install.replace(f"'.{EXTRAS}'", f"'{wheel}{EXTRAS}'"))
    assert "Successfully installed faregate" in said
    return terminal


def test_the_readme_names_one_installation() -> None:
    installations = [line for block in BLOCKS for line in commands(block) if "pip install" in line]
    assert installations == [f"pip install '.{EXTRAS}' pytest"]
    [named] = re.findall(r"faregate-(\S+)-py3-none-any\.whl\[all\]", README)
    assert f'version = "{named}"' in (ROOT / "pyproject.toml").read_text()


def test_the_first_block_is_of_the_checkout() -> None:
    for script in commands(BLOCKS[0]):
        assert os.access(ROOT / script, os.X_OK), script


def test_every_command_runs(terminal: Terminal) -> None:
    (terminal.place / "shop.py").write_text(snippet("from faregate.starlette import"))
    (terminal.place / "test_shop.py").write_text(snippet("def test_"))
    typed = [command for block in BLOCKS[2:] for command in commands(block)]
    said = dict[str, str]()
    seller = SELLER
    with ExitStack() as servers:
        for command in typed:
            if "uvicorn" in command:
                seller = servers.enter_context(terminal.serving(command))
            elif command == "faregate emulator":
                said[command] = servers.enter_context(terminal.serving(f"{command} --port 0"))
            else:
                said[command] = terminal.run(command.replace(SELLER, seller))
    assert set(said) >= {"pytest", "faregate emulator", "faregate routes shop:app"}
    assert " 1 passed" in said["pytest"]
    assert "daily_report" in said["faregate routes shop:app"]


@pytest.mark.parametrize(
    "part",
    ["from faregate.fastapi", "from faregate.flask", "from faregate.asgi"],
    ids=lambda part: part.split(".")[-1],
)
def test_each_example_runs_with_what_was_installed(part: str, terminal: Terminal) -> None:
    (terminal.place / "shop.py").write_text(snippet(part))
    assert "paid" in terminal.run("FAREGATE_BASE_URL=emulator: faregate routes shop:app")
