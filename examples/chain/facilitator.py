"""The official x402 facilitator, served over HTTP on this machine: that of Python, or that of TypeScript.

`python -m examples.chain.facilitator RPC_URL` serves it, and prints `{"url": ...}` once it does.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

from examples.chain.typescript_payer import install_client
from faregate.x402.tokens import CHAINS

GAS_KEYS: Final = (
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
)
"""The published keys of anvil's first accounts, which have ether. Never send money to their addresses."""
PATIENCE: Final = 3.0
"""Seconds that it waits for a block; then it answers `settlement_pending`."""
Language = Literal["python", "typescript"]
_ROOT: Final = Path(__file__).parents[2]


class Process(Protocol):
    """What is needed of `subprocess.Popen`."""

    @property
    def stdin(self) -> IO[Any] | None: ...

    @property
    def stdout(self) -> IO[Any] | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class FacilitatorProcess:
    """The facilitator in a process of its own, which can be killed. What it knew is forgotten then."""

    def __init__(
        self,
        rpc_url: str,
        *,
        gas_key: str = GAS_KEYS[0],
        patience: float = PATIENCE,
        language: Language = "python",
    ) -> None:
        self._command = [*_find_program(language), rpc_url, "--patience", str(patience)]
        self._environment = {**os.environ, "FACILITATOR_GAS_KEY": gas_key}
        self._process: Process | None = None
        self.url = ""

    def start(self) -> None:
        """Start it; at the address that it had, if it was started before."""
        port = self.url.rpartition(":")[2] or "0"
        self._process = self._spawn([*self._command, "--port", port], self._environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.kill()
            raise RuntimeError("the facilitator did not start")
        self.url = json.loads(line)["url"]

    def _spawn(self, command: list[str], environment: dict[str, str]) -> Process:
        return subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def kill(self) -> None:
        """Kill it (-9), whatever it is doing."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def restart(self) -> None:
        """Kill it and start it anew, without what it knew."""
        self.kill()
        self.start()


def _find_program(language: Language) -> list[str]:
    """Find the program. Raises `NoTypeScript` where that of TypeScript cannot be had."""
    if language == "python":
        return [sys.executable, "-m", "examples.chain.facilitator"]
    return ["node", str(install_client() / "facilitator.mjs")]


@contextmanager
def run_facilitator(
    rpc_url: str,
    *,
    gas_key: str = GAS_KEYS[0],
    patience: float = PATIENCE,
    language: Language = "python",
) -> Generator[FacilitatorProcess]:
    """Run the facilitator until the block ends; raises `NoTypeScript` where there is no node or npm."""
    process = FacilitatorProcess(rpc_url, gas_key=gas_key, patience=patience, language=language)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def build_facilitator(rpc_url: str, chain: int, gas_key: str, patience: float) -> Any:
    """Build the official facilitator: its schemes `exact` and `upto` and its signer, with nothing of ours."""
    from x402.facilitator import x402FacilitatorSync
    from x402.mechanisms.evm import FacilitatorWeb3Signer  # pyright: ignore[reportMissingTypeStubs]
    from x402.mechanisms.evm.exact import (  # pyright: ignore[reportMissingTypeStubs]
        ExactEvmFacilitatorScheme,
    )
    from x402.mechanisms.evm.upto.facilitator import (  # pyright: ignore[reportMissingTypeStubs]
        UptoEvmScheme,
    )

    signer = FacilitatorWeb3Signer(gas_key, rpc_url, confirmation_timeout_seconds=patience)
    facilitator = x402FacilitatorSync()
    facilitator.register([f"eip155:{chain}"], ExactEvmFacilitatorScheme(signer))
    facilitator.register([f"eip155:{chain}"], UptoEvmScheme(signer))
    return facilitator


def _make_handler(facilitator: Any) -> type[BaseHTTPRequestHandler]:
    from x402.schemas import SettleRequest

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(200, facilitator.get_supported())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                asked = SettleRequest.model_validate_json(body)
            except ValueError:
                self._write(400, b'{"error": "bad request"}')
                return
            act = {"/verify": facilitator.verify, "/settle": facilitator.settle}[self.path]
            self._answer(200, act(asked.payment_payload, asked.payment_requirements))

        def _answer(self, status: int, model: Any) -> None:
            self._write(status, model.model_dump_json(by_alias=True, exclude_none=True).encode())

        def _write(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that has gone is no news
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rpc_url")
    parser.add_argument("--chain", type=int, default=CHAINS["test"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to wait for a block")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # it warns of every payment that it refuses
    gas_key = os.environ.get("FACILITATOR_GAS_KEY", GAS_KEYS[0])
    facilitator = build_facilitator(options.rpc_url, options.chain, gas_key, options.patience)
    with _Server(("127.0.0.1", options.port), _make_handler(facilitator)) as server:
        print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
        # It ends with whoever started it, however that ends: then its standard input is closed.
        threading.Thread(target=_end_with_parent, daemon=True).start()
        server.serve_forever()


def _end_with_parent() -> None:
    if not sys.stdin.isatty():
        sys.stdin.buffer.read()
        os._exit(0)


if __name__ == "__main__":
    main()
