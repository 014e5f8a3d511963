"""The seller of a campaign, in a process that starts its workers."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.campaigns import ROOT
from tests.support.processes import environment

START_SECONDS = 60.0


@contextmanager
def serve_seller(
    module: str, sold: str, settings: Mapping[str, str], folder: Path
) -> Generator[tuple[int, int]]:
    """Run `python -m MODULE LISTENER` until the block ends; yields its port and its process id.

    `sold` is a path that it answers with 402 once it serves. Raises `RuntimeError` if it does not.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", module, str(listener.fileno())]
        seller = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT, env=environment(**settings),
            pass_fds=[listener.fileno()],
        )  # fmt: skip
        try:
            port = listener.getsockname()[1]
            _wait_until_served(seller, port, sold, folder)
            yield port, seller.pid
        finally:
            assert seller.stdin is not None
            seller.stdin.close()
            seller.wait()


def _wait_until_served(seller: "subprocess.Popen[bytes]", port: int, sold: str, folder: Path) -> None:
    """The socket takes connections before a worker answers."""
    request = f"GET {sold} HTTP/1.1\r\nHost: seller.example\r\nConnection: close\r\n\r\n".encode()
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and seller.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.settimeout(2.0)
            connection.sendall(request)
            if connection.recv(12) == b"HTTP/1.1 402":
                return
    raise RuntimeError(f"the seller does not start:\n{(folder / 'log').read_text(errors='replace')[-4000:]}")
