"""From an empty folder to a sale, for each framework: `faregate init`, and what it says to type next.

Commands are typed as printed; only ports are replaced. One framework walks the whole way in a fresh virtual
environment, which has what the printed `pip install` brings; `--full` takes all of them there. In the suite
the others use this interpreter.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from faregate.cli import main
from tests.support.preloaded import PreloadedPython
from tests.support.virtualenvs import brought_by, link_packages

SELLER = "http://127.0.0.1:8000"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_OTHER_SERVERS = ("flask", "django", "wsgi")
"""With a command of their own. FastAPI, Starlette and ASGI are run by uvicorn."""
SECONDS = 120


@dataclass(frozen=True)
class Folder:
    """A folder in which commands are typed, and the folder with the commands of its environment."""

    place: Path
    commands: Path

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DJANGO", "FAREGATE", "PYTEST", "PYTHON", "VIRTUAL_ENV"))
        }
        path = f"{self.commands}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "PORT": "0", "UVICORN_PORT": "0", "PYTHONUNBUFFERED": "1"}

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.place,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, command: str) -> Generator[str]:
        """A server on a port of its own; gives the address that it says."""
        log = self.place / "log"
        with log.open("w") as said:
            process = subprocess.Popen(
                ["sh", "-c", re.sub(r"\b8000\b", "0", command)],
                cwd=self.place,
                env=self.environ,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            give_up = time.monotonic() + SECONDS
            while (found := _ADDRESS.search(log.read_text())) is None:
                if process.poll() is not None or time.monotonic() > give_up:
                    pytest.fail(f"{command} said no address:\n{log.read_text()}")
                time.sleep(0.05)
            yield found.group()
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(SECONDS)


def commands(printed: str, head: str) -> list[str]:
    """The commands below a head in what `init` printed, without their comments."""
    block = printed.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


@pytest.mark.parametrize(
    "framework",
    [
        "fastapi",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("starlette", "flask", "django", "asgi", "wsgi")
        ),
    ],
)
def test_in_a_fresh_environment_the_printed_commands_are_enough(framework: str, tmp_path: Path) -> None:
    environment = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    link_packages(environment, brought_by("faregate"))
    folder = Folder(tmp_path, environment / "bin")

    printed = folder.run(f"faregate init --framework {framework}")
    [install] = commands(printed, "First install")
    pip, verb, *requirements = shlex.split(install)
    assert (pip, verb) == ("pip", "install")
    link_packages(environment, brought_by(*requirements))

    serve, pay, test = commands(printed, "Next")
    with folder.serving(serve) as address:
        assert "Sunny." in folder.run(pay.replace(SELLER, address))
    assert " 1 passed" in folder.run(test)


@pytest.mark.parametrize("framework", ["starlette", "flask", "django", "asgi", "wsgi"])
def test_with_what_is_installed_the_printed_commands_are_enough(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path, Path(sys.executable).parent)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--framework", framework]) == 0
    printed = capsys.readouterr().out
    assert "First install" not in printed
    serve, pay, test = commands(printed, "Next")
    if framework in _OTHER_SERVERS:
        with folder.serving(serve) as address:
            assert main(shlex.split(pay.replace(SELLER, address))[1:]) == 0
        assert "Sunny." in capsys.readouterr().out
    with PreloadedPython(["-m", *shlex.split(test)], env=folder.environ, cwd=str(tmp_path)) as process:
        said, _ = process.communicate(SECONDS)
    assert process.returncode == 0, said
    assert " 1 passed" in said
