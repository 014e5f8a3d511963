"""`examples/deployment`: its files, started as they are, with ports and folders of this machine."""

import configparser
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from examples.demo.servers import server

from faregate.emulator import Emulator, Wallet
from faregate.emulator.calls import RecordedCall
from tests.e2e.payers import HttpxPayer
from tests.servers.shared import need, shared

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = EXAMPLES / "deployment"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
NGINX_MISSING = "" if NGINX else "nginx is not installed"
NAMES = {"seller": "seller.service", "sweep": "seller-sweep.service"}


def read_command(name: str) -> list[str]:
    """Read `ExecStart` of a unit, as a module of this Python."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((FOLDER / "systemd" / NAMES[name]).read_text())
    program, *options = shlex.split(unit["Service"]["ExecStart"])
    assert program.startswith(f"{unit['Service']['WorkingDirectory']}/.venv/bin/")
    return [Path(program).name, *options]


@contextmanager
def empty_journal() -> Generator[str]:
    """The URL of a new database on the PostgreSQL that all tests share."""
    url, name = shared("postgres"), f"seller_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(url) as connection:
        yield url.replace(f"/{connection.info.dbname}", f"/{name}", 1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def proxy(seller: str, folder: Path) -> Generator[str]:
    """nginx with the example's site, without TLS, in front of `seller`."""
    need("nginx", NGINX_MISSING)
    assert NGINX
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = (FOLDER / "nginx.conf").read_text()
    site = re.sub(r"^ *ssl_.*\n", "", site, flags=re.MULTILINE)
    site = site.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    site = site.replace("127.0.0.1:8000", seller.removeprefix("http://"))
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    around = f"daemon off; pid {folder}/pid; error_log stderr; events {{}}"
    (folder / "nginx.conf").write_text(f"{around} http {{ access_log off; {paths}\n{site} }}")
    process = subprocess.Popen([NGINX, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")])
    try:
        wait_for(lambda: is_open(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def wait_for(is_there: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.fixture
def deployed(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[dict[str, str]]:
    """The environment of both units. `seller.env` names the same variables."""
    named = re.findall(r"^(\w+)=", (FOLDER / "seller.env").read_text(), re.MULTILINE)
    shutil.copytree(EXAMPLES / "flask", tmp_path, dirs_exist_ok=True)
    shutil.copy(FOLDER / "gunicorn.conf.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    with empty_journal() as journal:
        environ |= {
            "FAREGATE_PUBLIC_URL": "https://api.example.com",
            "FAREGATE_JOURNAL": journal,
            "FAREGATE_JOURNAL_KEY": b64encode(secrets.token_bytes(32)).decode(),
            "PYTHONPATH": str(tmp_path),
        }
        assert set(named) == {name for name in environ if name.startswith("FAREGATE_")}
        yield environ


def start_sweep(environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    words = [{"30": "1"}.get(word, word) for word in read_command("sweep")]
    command = [sys.executable, "-m", *words]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    return subprocess.Popen(command, env={**kept, **environ}, stdout=subprocess.PIPE)


def test_it_sells_through_nginx_and_the_sweep_finishes_what_nobody_returns_for(
    deployed: dict[str, str], emulator: Emulator, tmp_path: Path
) -> None:
    command = [*read_command("seller"), "--bind", "127.0.0.1:0"]
    with ExitStack() as stack:
        seller = stack.enter_context(server("gunicorn", command, deployed))
        url = stack.enter_context(proxy(seller, tmp_path))
        # A cookie that leaves little of nginx's default buffers to the proof.
        crowded = {"Cookie": f"filler={'c' * 9000}"}
        asked = httpx.get(f"{url}/reports/today", headers=crowded, timeout=60)
        proof = {"PAYMENT-SIGNATURE": Wallet.test("slow").pay(asked.headers["PAYMENT-REQUIRED"])}
        late = httpx.get(f"{url}/reports/today", headers=proof | crowded, timeout=60)
        paid = HttpxPayer().call("GET", f"{url}/reports/tomorrow")

        sweep = start_sweep(deployed)
        try:
            # Nobody else reads it: the payer has not returned.
            wait_for(lambda: any(has_settled(one) for one in emulator.calls("transaction")))
        finally:
            sweep.send_signal(signal.SIGTERM)
            sweep.communicate(timeout=60)
        fetched = httpx.get(f"{url}/reports/today", headers=proof | crowded, timeout=60)

    assert (asked.status_code, late.status_code) == (402, 202)
    assert paid.json() == {"report": "Rain."}
    assert (fetched.status_code, fetched.json()) == (200, {"report": "Sunny, with a chance of receipts."})
    assert sweep.returncode == 0


def has_settled(read: RecordedCall) -> bool:
    return read.response is not None and b'"succeeded"' in (read.response.body or b"")


def test_the_units_do_not_wait_less_than_what_they_end() -> None:
    """Each time-out is longer than the one inside it."""
    gunicorn = (FOLDER / "gunicorn.conf.py").read_text()
    [graceful] = re.findall(r"^graceful_timeout = (\d+)", gunicorn, re.MULTILINE)
    [stop] = re.findall(
        r"^TimeoutStopSec=(\d+)", (FOLDER / "systemd/seller.service").read_text(), re.MULTILINE
    )
    [read] = re.findall(r"proxy_read_timeout (\d+)s", (FOLDER / "nginx.conf").read_text())
    [longest] = re.findall(
        r"`max_request_seconds` \| (\d+)", (EXAMPLES.parent / "docs/settings.md").read_text()
    )

    assert int(longest) < int(graceful) < int(stop)
    assert int(longest) < int(read)
