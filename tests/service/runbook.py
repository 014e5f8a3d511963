"""The runbook, played: its commands run in a shell, against a service on PostgreSQL and a real EVM.

`systemctl` is this module: it stops and starts the processes of the service.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from faregate.emulator import Wallet
from faregate.system import system_clock
from tests.servers.postgres import USER, PostgresServer
from tests.service.command import running
from tests.service.shops import Shop, open_shop
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.forked_commands import write_commands
from tests.support.preloaded import PreloadedPython
from tests.support.shell import find_blocks

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/service-runbook.md").read_text()
RECIPIENT: Final = "0x5e11e75E11e75e11E75E11E75E11e75E11E75E11"
PRICE: Final = 50_000
CATALOG: Final = f"""\
[seller]
id = "my-shop"
name = "My shop"
pay_to = "{RECIPIENT}"

[[resources]]
key = "daily_report"
name = "Daily report"
max_timeout_seconds = 120
revisions = [{{amount = {PRICE}}}]
"""


def find_section(title: str) -> str:
    """Find what stands below a heading of the page."""
    [section] = [one for one in PAGE.split("\n## ") if one.startswith(f"{title}\n")]
    return section


def _end(process: PreloadedPython) -> None:
    """End a process as systemd does: an attempt that is under way would keep its lease if it was killed."""
    process.terminate()
    process.wait(60)


@dataclass
class Site:
    """One operator's machine: the service with its settings, a chain, a payer with money."""

    folder: Path
    chain: LocalChain
    server: PostgresServer
    settings: dict[str, str]
    payer: ChainPayer
    programs: Path
    shop: Shop = field(default_factory=lambda: Shop("", "", "Daily report"))
    processes: ExitStack = field(default_factory=ExitStack)

    def play(self, title: str, number: int = 0, **replacements: str) -> str:
        """Run the commands of a block of a section; return what they print."""
        block = self.find_commands(title, number)
        for old, new in replacements.items():
            block = block.replace(old, new)
        return self.run_all(block)

    def find_commands(self, title: str, number: int = 0) -> str:
        return find_blocks(find_section(title), "sh")[number]

    def run_all(self, commands: str) -> str:
        return "".join(map(self.run, commands.splitlines()))

    def run(self, line: str) -> str:
        words = shlex.split(line, comments=True)
        if words[:2] == ["sudo", "systemctl"]:
            {"stop": self.stop, "start": self.start, "restart": self.restart}[words[2]]()
            return ""
        line = line.replace("sudo -u postgres ", "").replace("/var/backups", str(self.folder))
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.build_environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 or words[:2] == ["faregate", "service"], f"{line}\n{done.stderr}"
        return done.stdout + done.stderr

    def build_environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE")}
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.server.port), "PGUSER": USER}
        path = f"{self.programs}{os.pathsep}{kept['PATH']}"
        return {**kept, **place, **self.settings, "PATH": path}

    def start(self) -> None:
        """Start the service, and give its new address to the shop."""
        words = ("serve", "--port", "0", "--json", "--complete-seconds", "1")
        line, process, _ = self.processes.enter_context(running(self.folder, *words, **self.settings))
        self.processes.callback(_end, process)
        self.shop.url = open_shop(line, self.shop.key).url

    def stop(self) -> None:
        self.processes.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    # Sales

    def authorize(self) -> tuple[str, str]:
        return self.shop.authorize(Wallet(self.payer.private_key, clock=system_clock))

    def sell(self) -> str:
        """Sell one report; return its transaction."""
        sold, proof = self.authorize()
        assert self.shop.complete(sold, proof).status_code in (200, 202)
        assert self.shop.wait_for_end(sold)["status"] == "succeeded"
        return sold

    @property
    def received(self) -> int:
        """How many reports the chain says were paid."""
        return self.chain.get_balance(USDC, RECIPIENT) // PRICE


@contextmanager
def open_site(
    folder: Path, chain: LocalChain, payer: ChainPayer, server: PostgresServer, **settings: str
) -> Generator[Site]:
    """Set up a service as the docs say, and run it until the block ends."""
    for name in ("faregate", "faregate_damaged"):
        server.call("dropdb", "--if-exists", "--force", name)
    server.call("createdb", f"--owner={USER}", "faregate")
    (folder / "catalog.toml").write_text(CATALOG)
    url = server.url.replace("/postgres", "/faregate")
    named = {"database": url, "rpc_test": chain.url, **settings}
    variables = {f"FAREGATE_SERVICE_{name.upper()}": value for name, value in named.items()}
    site = Site(folder, chain, server, variables, payer, write_commands(folder))
    try:
        said = site.run("faregate service init && faregate service apply catalog.toml --yes")
        assert "daily_report: created" in said, said
        [site.shop.key] = re.findall(r"svc_test_\w+", site.run("faregate service key create"))
        site.start()
        yield site
    finally:
        site.stop()
