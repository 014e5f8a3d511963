"""From an empty folder to a sale, for each framework: `faregate init`, and what it says to type next.

Commands are typed as printed; only ports are replaced. One framework walks the whole way in a fresh virtual
environment, which has what the printed `pip install` brings; `--full` takes all of them there. In the suite
the others use this interpreter.
"""

import re
import shlex
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from faregate.cli import main
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer
from tests.support.facilitators import run_facilitator
from tests.support.preloaded import PreloadedPython
from tests.support.shell import Terminal
from tests.support.virtualenvs import brought_by, link_packages
from tests.testing.suites import WITHOUT_OURS

__all__ = ["chain", "payer"]

PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
SELLER = "http://127.0.0.1:8000"
_OTHER_SERVERS = ("flask", "django", "wsgi")
"""With a command of their own. FastAPI, Starlette and ASGI are run by uvicorn."""
SECONDS = 120


def open_terminal(folder: Path, programs: Path | None = None) -> Terminal:
    environ = {"PORT": "0", "UVICORN_PORT": "0", "PYTEST_ADDOPTS": " ".join(WITHOUT_OURS)}
    return Terminal(folder, environ, programs=programs)


def serving(terminal: Terminal, command: str) -> AbstractContextManager[str]:
    """A server on a port of its own; gives the address that it says."""
    return terminal.start(re.sub(r"\b8000\b", "0", command))


def commands(printed: str, head: str) -> list[str]:
    """The commands below a head in what `init` printed, without their comments."""
    block = printed.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


def init_in_a_fresh_environment(folder: Path, *words: str) -> tuple[Terminal, str]:
    """Where only faregate is installed, run `init`, and install what it says. Return what it says."""
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    link_packages(environment, brought_by("faregate"))
    terminal = open_terminal(folder, environment / "bin")
    printed = terminal.run(f"faregate init {shlex.join(words)}")
    [install] = commands(printed, "First install")
    pip, verb, *requirements = shlex.split(install)
    assert (pip, verb) == ("pip", "install")
    link_packages(environment, brought_by(*requirements))
    return terminal, printed


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
    terminal, printed = init_in_a_fresh_environment(tmp_path, framework)
    serve, pay, test = commands(printed, "Next")
    with serving(terminal, serve) as address:
        assert "Sunny." in terminal.run(pay.replace(SELLER, address))
    assert " 1 passed" in terminal.run(test)


@pytest.mark.parametrize("framework", ["starlette", "flask", "django", "asgi", "wsgi"])
def test_with_what_is_installed_the_printed_commands_are_enough(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = open_terminal(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--framework", framework]) == 0
    printed = capsys.readouterr().out
    assert "First install" not in printed
    serve, pay, test = commands(printed, "Next")
    if framework in _OTHER_SERVERS:
        with serving(terminal, serve) as address:
            assert main(shlex.split(pay.replace(SELLER, address))[1:]) == 0
        assert "Sunny." in capsys.readouterr().out
    with PreloadedPython(["-m", *shlex.split(test)], env=terminal.environ, cwd=str(tmp_path)) as process:
        said, _ = process.communicate(SECONDS)
    assert process.returncode == 0, said
    assert " 1 passed" in said


@pytest.mark.parametrize("framework", ["fastapi", "flask", "django", "asgi", "wsgi", "mcp"])
def test_an_application_with_its_price_in_the_code_passes_its_test(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--real", framework]) == 0
    assert 'price="0.05 USDC"' in (tmp_path / "shop.py").read_text()
    terminal = open_terminal(tmp_path)
    # The settings of the application are exported in the shell: its tests move no money all the same.
    environ = terminal.environ | {"FAREGATE_BASE_URL": "service:", "FAREGATE_SERVICE_PAY_TO": PAY_TO}
    with PreloadedPython(["-m", "pytest"], env=environ, cwd=str(tmp_path)) as process:
        said, _ = process.communicate(SECONDS)
    assert process.returncode == 0, said
    assert " 1 passed" in said
    assert not (tmp_path / "faregate.db").exists()


@pytest.mark.parametrize(
    "framework",
    ["fastapi", *(pytest.param(name, marks=pytest.mark.full) for name in ("flask", "django", "wsgi", "mcp"))],
)
def test_the_printed_commands_lead_to_a_payment_on_the_chain(
    framework: str, tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    """First without money, then with an address in .env, on the same database."""
    terminal, printed = init_in_a_fresh_environment(tmp_path, "--real", framework)
    serve, pay, _ = commands(printed, "Next")
    with serving(terminal, serve) as address:
        assert "Sunny." in terminal.run(pay.replace(SELLER, address))
    copy, export, check, serve = commands(printed, "Then, to be paid on the test network")
    terminal.run(copy)
    with run_facilitator(chain.url) as facilitator:
        (settings := tmp_path / ".env").write_text(
            settings.read_text().replace("PAY_TO=\n", f"PAY_TO={PAY_TO}\n")
            + f"FAREGATE_SERVICE_RPC_TEST={chain.url}\nFAREGATE_SERVICE_FACILITATOR_TEST={facilitator.url}\n"
        )
        terminal.run(export)
        assert '"faults": []' in terminal.run(check)
        with serving(terminal, serve) as address:
            pay = f"FAREGATE_PAYER_KEY={payer.private_key} {pay.replace(SELLER, address)}"
            assert "Sunny." in terminal.run(pay)
    assert chain.get_balance(USDC, PAY_TO) == 50_000
