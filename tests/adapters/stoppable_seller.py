"""A seller's server as a process that a test tells to end."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from tests.support.unfinished_payments import Seller

Process = subprocess.Popen[str]


@contextlib.contextmanager
def serving_shop(source: str, seller: Seller, folder: Path, *, grace: int) -> Generator[tuple[Process, str]]:
    """The `app` of this source under uvicorn, which waits `grace` seconds for its requests; and its URL."""
    (folder / "shop.py").write_text(source)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f"-m uvicorn --port {port} --timeout-graceful-shutdown {grace} shop:app"
    server = subprocess.Popen(
        [sys.executable, *command.split()],
        env=os.environ | seller.environ | {"FAREGATE_PUBLIC_URL": "https://seller.example"},
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        heard(server, "Uvicorn running")
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.communicate()


def heard(server: Process, words: str) -> None:
    """Waits until it says so, or fails with its end."""
    assert server.stderr is not None
    assert any(words in line for line in server.stderr), words
