"""The README's commands run word for word, in a fresh virtual environment, with faregate from a built wheel.

Two things are replaced: the ports, and the checkout by the wheel, as the README says. pip installs
for real but without an index: it finds what the named extras bring, and fails for anything else.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.chain import USDC, ChainPayer, LocalChain, require_anvil, start_chain
from tests.support.facilitators import run_facilitator
from tests.support.shell import Terminal, find_blocks
from tests.support.virtualenvs import brought_by, link_packages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
_REAL = README.partition("## Take real payments\n")[2].partition("\n## ")[0]
BLOCKS = find_blocks(README.replace(_REAL, ""), "sh")
REAL_BLOCKS = find_blocks(_REAL, "sh")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
EXTRAS = "[all]"
SELLER = "http://127.0.0.1:8000"


def commands(block: str) -> list[str]:
    return [line.partition("  #")[0].strip() for line in block.splitlines() if line.strip()]


def snippet(part: str) -> str:
    found: list[str] = [one for one in SNIPPETS if part in one]
    assert len(found) == 1, part
    return found[0]


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
    """After the README's installation, where only `python` was there before."""
    place = tmp_path_factory.mktemp("shop")
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    terminal = Terminal(
        place, {"PIP_NO_INDEX": "1", "PIP_NO_COMPILE": "1", "UVICORN_PORT": "0"}, programs=place / "bin"
    )
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
    for page in (README, (ROOT / "docs" / "deployment.md").read_text()):
        [named] = re.findall(r"faregate-(\S+)-py3-none-any\.whl\[", page)
        assert f'version = "{named}"' in (ROOT / "pyproject.toml").read_text()


def test_the_first_block_is_of_the_checkout() -> None:
    for script in commands(BLOCKS[0]):
        assert os.access(ROOT / script, os.X_OK), script


def test_every_command_runs(terminal: Terminal) -> None:
    (terminal.folder / "shop.py").write_text(snippet("from faregate.starlette import"))
    (terminal.folder / "test_shop.py").write_text(snippet("def test_"))
    typed = [command for block in BLOCKS[2:] for command in commands(block)]
    said = dict[str, str]()
    seller = SELLER
    with ExitStack() as servers:
        for command in typed:
            if "uvicorn" in command:
                seller = servers.enter_context(terminal.start(command))
            elif command == "faregate emulator":
                said[command] = servers.enter_context(terminal.start(f"{command} --port 0"))
            else:
                said[command] = terminal.run(command.replace(SELLER, seller))
    assert set(said) >= {"pytest", "faregate emulator", "faregate routes shop:app"}
    assert " 1 passed" in said["pytest"]
    assert "daily_report" in said["faregate routes shop:app"]


@pytest.mark.parametrize(
    "part",
    ["from faregate.fastapi import Payment", "from faregate.flask", "from faregate.asgi"],
    ids=["fastapi", "flask", "asgi"],
)
def test_each_example_runs_with_what_was_installed(part: str, terminal: Terminal) -> None:
    (terminal.folder / "shop.py").write_text(snippet(part))
    assert "paid" in terminal.run("FAREGATE_BASE_URL=emulator: faregate routes shop:app")


# Real payments


PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


@pytest.fixture(scope="module")
def base_sepolia() -> Generator[tuple[LocalChain, str]]:
    """A chain on this machine, and the settings of its node and of the official facilitator."""
    require_anvil()
    with start_chain() as chain, run_facilitator(chain.url) as facilitator:
        named = {"RPC_TEST": chain.url, "FACILITATOR_TEST": facilitator.url}
        yield chain, " ".join(f"FAREGATE_SERVICE_{name}={value}" for name, value in named.items())


@pytest.mark.parametrize("framework", ["fastapi", "flask", "django", "mcp"])
def test_real_payments_are_taken_with_these_lines(
    framework: str, terminal: Terminal, base_sepolia: tuple[LocalChain, str], tmp_path: Path
) -> None:
    """FastAPI is the README's. The others are written, and started, by what `init --real` says."""
    chain, nodes = base_sepolia
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 1_000_000)
    (tmp_path / "payer.key").write_text(payer.private_key)
    (tmp_path / "payer.key").chmod(0o600)
    shell = Terminal(tmp_path, terminal.environ)
    shell.run(f"export {nodes}")
    if framework == "fastapi":
        (tmp_path / "shop.py").write_text(snippet("price="))
        *settings, check, serve = commands(REAL_BLOCKS[0])
        [pay] = commands(REAL_BLOCKS[1])
        shell.run("\n".join(settings).replace("0x...", PAY_TO))
    else:
        said = shell.run(f"faregate init --real {framework}")
        next_ones, _, then = said.partition("\n\nThen, to be paid on the test network\n")
        copy, export, check, serve = commands(then)
        [buy] = [one for one in commands(next_ones) if "faregate pay " in one]
        pay = f"{buy} --key-file payer.key"
        shell.run(f"{copy}\nsed -i 's/PAY_TO=$/PAY_TO={PAY_TO}/' .env\n{export}")
    assert '"faults": []' in shell.run(check)
    before = chain.get_balance(USDC, PAY_TO)
    with shell.start(serve.replace("8000", "0")) as seller:
        assert "Sunny." in shell.run(pay.replace(SELLER, seller))
    assert chain.get_balance(USDC, PAY_TO) - before == 50_000
