"""The servers of the demo on a chain: a node, the official facilitator, the service, the seller."""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from unittest.mock import patch

import httpx

from examples.chain.anvil import NoAnvil, install_anvil
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess, run_facilitator
from examples.chain.local import LocalChain, start_any_chain
from examples.chain.node_process import NoNode
from examples.chain.typescript_payer import NoTypeScript, install_client
from faregate.cli import main
from faregate.merchant.client import AsyncMerchantClient
from faregate.service.in_process import open_reader
from faregate.settings import IN_PROCESS, SERVICE
from faregate.x402.eip712 import derive_address
from faregate.x402.tokens import TOKENS, Token

from .reporter import Reporter
from .servers import AT_ONCE, PATIENCE, SELLER, DidNotStart, Servers, clean_environment, server

CATALOG: Final = Path(__file__).with_name("catalog.toml")
PAY_TO: Final[str] = tomllib.loads(CATALOG.read_text())["seller"]["pay_to"]
ONE_PROCESS_SELLER: Final = Path(__file__).parent.parent / "one_process"
TOKEN: Final = TOKENS["test", "USDC"]
_COMPLETE_SECONDS: Final = "3"
PY_EVM: Final = "py-evm==0.12.1b1"


OpenBooks = Callable[[], AsyncMerchantClient]


@dataclass(frozen=True)
class ChainServers(Servers):
    """Where everybody is. No facilitator: the service settles by itself. No client: there is no npm.

    `open_books` opens the books as the seller reads them. With `has_workers`, the seller has several, and the
    service is inside each.
    """

    chain: LocalChain
    token: Token
    pay_to: str
    facilitator: FacilitatorProcess | None
    typescript: Path | None
    open_books: OpenBooks
    has_workers: bool

    @property
    def can_be_stuck(self) -> bool:
        """Whether the chain can be told to make no blocks."""
        return self.chain.engine == "anvil"


@contextmanager
def run_chain_servers(
    tell: Reporter, *, direct: bool = False, one_process: bool = False, seller: Path | None = None
) -> Generator[ChainServers]:
    """Everything, until the block ends. Each part is told as it starts."""
    tell.step("Everything starts", "What comes from npm is installed once, into .cache.")
    with ExitStack() as stack:
        typescript = _install(tell)
        try:
            chain = stack.enter_context(start_any_chain())
        except NoNode as error:
            raise DidNotStart(f"There is no chain: {error}") from None
        tell.part("chain", chain.url, f"{chain.engine.partition(' ')[0]}, a real EVM")
        for key in GAS_KEYS[:2]:
            chain.fund(derive_address(bytes.fromhex(key[2:])))
        facilitator = None
        if not direct:
            facilitator = stack.enter_context(run_facilitator(chain.url))
            tell.part("facilitator", facilitator.url, "the official one, x402 for Python")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = _settings(folder, chain, facilitator)
        run_seller = _run_one_process if one_process else _run_service_and_seller
        servers, open_books = stack.enter_context(run_seller(tell, environ, seller))
        yield ChainServers(
            servers.service,
            servers.seller,
            servers.api_key,
            chain,
            TOKEN,
            PAY_TO,
            facilitator,
            typescript,
            open_books,
            has_workers=one_process,
        )


@contextmanager
def _run_service_and_seller(
    tell: Reporter, environ: Mapping[str, str], seller: Path | None
) -> Generator[tuple[Servers, OpenBooks]]:
    key = _prepare(environ)
    with server("the service", ["faregate", "service", "serve"], environ) as service:
        tell.part("service", service, "faregate service, on SQLite")
        uvicorn = ["uvicorn", "--app-dir", str(seller or SELLER), "--port", "0", "--no-access-log", "app:app"]
        with server(
            "the seller", uvicorn, {"FAREGATE_API_KEY": key, "FAREGATE_BASE_URL": service, **AT_ONCE}
        ) as url:
            tell.part("seller", url, "examples/fastapi")
            yield Servers(service, url, key), partial(AsyncMerchantClient, key, service)


@contextmanager
def _run_one_process(
    tell: Reporter, environ: Mapping[str, str], seller: Path | None
) -> Generator[tuple[Servers, OpenBooks]]:
    """The seller with the service inside, in two workers. Its books are read beside it."""
    with tempfile.NamedTemporaryFile() as work_log:
        named = {"FAREGATE_BASE_URL": "service:", "FAREGATE_SERVICE_PAY_TO": PAY_TO, **AT_ONCE}
        environ = {**environ, **named, "WORK_LOG": work_log.name}
        folder = str(seller or ONE_PROCESS_SELLER)
        uvicorn = ["uvicorn", "--app-dir", folder, "--port", "0", "--no-access-log"]
        # The demo kills a worker. Uvicorn must not: it would, if a busy machine delayed a health check.
        workers = ["--workers", "2", "--timeout-worker-healthcheck", "60", "app:app"]
        with server("the seller", [*uvicorn, *workers], environ) as url:
            tell.part("seller", url, "examples/one_process, two workers")
            _wait_for_workers(url)
            with closing(open_reader("test", environ)) as reader:
                key, address = "svc_test_service", IN_PROCESS[SERVICE]
                yield (
                    Servers("in the seller's process", url, ""),
                    partial(AsyncMerchantClient, key, address, transport=reader),
                )


def _wait_for_workers(url: str) -> None:
    """Wait until a worker listens: uvicorn names the address before it starts them."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            httpx.get(f"{url}/health", trust_env=False)
            return
        except httpx.TransportError:
            if time.monotonic() > give_up:
                raise DidNotStart("no worker of the seller listens") from None
            time.sleep(0.05)


def _install(tell: Reporter) -> Path | None:
    """Install the chain and the TypeScript client, and say what is missing."""
    try:
        install_anvil()
    except NoAnvil as error:
        tell.say(f"There is no anvil: {error}. py-evm plays the chain: slower, and never without blocks.")
        if find_spec("eth") is None:
            pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", PY_EVM]
            if subprocess.run(pip, check=False).returncode != 0:
                raise DidNotStart(f"There is no chain: pip could not install {PY_EVM}.") from None
    try:
        return install_client()
    except NoTypeScript as error:
        tell.say(f"The TypeScript client does not play: {error}.")
        return None


def _settings(folder: Path, chain: LocalChain, facilitator: FacilitatorProcess | None) -> dict[str, str]:
    settings = {
        "DATABASE": f"sqlite:///{folder}/service.db",
        "RPC_TEST": chain.url,
        "COMPLETE_SECONDS": _COMPLETE_SECONDS,
        "PORT": "0",
    }
    if facilitator is None:
        (key := folder / "gas.key").write_text(GAS_KEYS[1])
        key.chmod(0o600)
        settings |= {"PAYMENTS": "direct", "GAS_KEY": f"file:{key}"}
    else:
        settings |= {"PAYMENTS": "facilitator", "FACILITATOR_TEST": facilitator.url}
    return {f"FAREGATE_SERVICE_{name}": value for name, value in settings.items()}


def _prepare(environ: Mapping[str, str]) -> str:
    """Make the database, publish the catalog, and return a new key of the test environment."""
    run(["service", "init"], environ)
    run(["service", "apply", str(CATALOG)], environ)
    made: dict[str, str] = json.loads(run(["service", "key", "create", "--json"], environ))
    return made["key"]


def run(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Run a command of faregate to its end and return what it says; `DidNotStart` if it failed.

    In this process: one of its own would take a second to start.
    """
    said, errors = io.StringIO(), io.StringIO()
    settings = {**clean_environment(os.environ), **environ}
    with patch.dict(os.environ, settings, clear=True), redirect_stdout(said), redirect_stderr(errors):
        status = main(command)
    if status != 0:
        told = (errors.getvalue() or said.getvalue()).strip()
        raise DidNotStart(f"faregate {' '.join(command)} failed:\n{told}")
    return said.getvalue()
