"""Install anvil, Foundry's local EVM node, from npm, and run it."""

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from examples.chain.node_process import NoNode, run_node

VERSION: Final = "1.7.1"
CACHE: Final = Path(__file__).parents[2] / ".cache" / f"anvil-{VERSION}"
"""Where it is installed, once per checkout. Git ignores it."""
_INSTALL_SECONDS: Final = 180.0
_MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class NoAnvil(NoNode):
    """Anvil cannot be had on this machine; the message says why."""


def install_anvil() -> Path:
    """Return the path of anvil's program, installed on first use (44 MB). Raises `NoAnvil`."""
    package = f"anvil-{platform.system().lower()}-{_MACHINES.get(platform.machine().lower(), 'unknown')}"
    program = CACHE / "node_modules" / "@foundry-rs" / package / "bin" / "anvil"
    if not program.exists():
        _install(program)
    return program


def _install(program: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAnvil("npm is missing: anvil, the local EVM, is installed with it")
    CACHE.parent.mkdir(exist_ok=True)
    # Installed elsewhere and moved: several processes may do it at once, and any may be killed.
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
        command = [
            npm,
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            f"@foundry-rs/anvil@{VERSION}",
        ]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
        except subprocess.CalledProcessError as error:
            raise NoAnvil(f"npm could not install anvil: {error.stderr.decode()[-400:]}") from None
        except subprocess.TimeoutExpired:
            raise NoAnvil(f"npm did not install anvil in {_INSTALL_SECONDS:.0f} s") from None
        installed = Path(folder) / "installed"
        installed.mkdir()
        (Path(folder) / "node_modules").rename(installed / "node_modules")
        try:
            installed.rename(CACHE)
        except OSError:
            if not program.exists():  # else another process was first
                raise
    if not program.exists():
        raise NoAnvil(f"anvil {VERSION} has no program for {platform.system()} on {platform.machine()}")


@contextmanager
def run_anvil(chain: int, *arguments: str, port: int = 0, safe_behind: int = 1) -> Generator[str]:
    """Run a node with this chain id until the block ends; give its RPC URL. Raises `NoAnvil`.

    A block is mined per transaction; the safe block is `safe_behind` blocks behind the latest. `arguments`
    are anvil's own.
    """
    command = [
        str(install_anvil()),
        "--chain-id",
        str(chain),
        "--port",
        str(port),
        "--slots-in-an-epoch",
        str(safe_behind),
    ]
    with run_node("anvil", [*command, *arguments]) as url:
        yield url
