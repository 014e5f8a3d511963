"""The two servers of the demo, as real processes on free ports. Each is ended by its pid."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SELLER = Path(__file__).parent.parent / "fastapi"
TEST_KEY = "svc_test_emulator"

PATIENCE = 30.0
AT_ONCE = {"FAREGATE_SETTLE_WAIT": "0"}
"""Sellers answer 202 at once, so that the demo shows how a payer comes back."""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class DidNotStart(Exception):
    """A server ended, or said nothing, before it could be used."""


@dataclass(frozen=True)
class Servers:
    """Where everybody is."""

    service: str
    seller: str
    api_key: str


@contextmanager
def run_servers(seller: Path = SELLER) -> Generator[Servers]:
    """The emulator and the app in the directory `seller` (`app:app`), until the block ends."""
    with server("the emulator", ["faregate", "emulator", "--json"], {}) as service:
        environ = {"FAREGATE_API_KEY": TEST_KEY, "FAREGATE_BASE_URL": service, **AT_ONCE}
        uvicorn = ["uvicorn", "--app-dir", str(seller), "--port", "0", "--no-access-log", "app:app"]
        with server("the seller", uvicorn, environ) as url:
            yield Servers(service, url, TEST_KEY)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with nothing of faregate in it."""
    return {key: value for key, value in environ.items() if not key.startswith("FAREGATE_")}


@contextmanager
def server(name: str, module: Sequence[str], environ: Mapping[str, str]) -> Generator[str]:
    """`python -m module...` with nothing of faregate in its environment but `environ`; gives its address."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            env={**clean_environment(os.environ), **environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours: we end it, in order
        )
        try:
            yield _address_of(name, process, log)
        finally:
            _end(process)


def _address_of(name: str, process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """Both servers say where they listen once they do."""
    give_up = time.monotonic() + PATIENCE
    while True:
        ended = process.poll() is not None
        log.seek(0)
        said = log.read()
        if found := _ADDRESS.search(said):
            return found.group()
        if ended or time.monotonic() > give_up:
            raise DidNotStart(f"{name} did not start:\n{said.strip() or '(it said nothing)'}")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
