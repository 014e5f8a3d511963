"""The processes of a run: nginx as the service, a store for the journal, and the server that is measured."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from tests.servers import POSTGRES_MISSING, REDIS_MISSING, postgres_server, redis_server

from harness.contestants import Contestant

HERE = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
DEFAULT_WINDOW = 600.0
"""Seconds in which a result is handed out again, as in the paywall's own settings."""
_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.4


class Service:
    """nginx with the fixed replies of `nginx.conf`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"

    def count(self) -> tuple[int, int]:
        """Return connections and requests so far, by nginx's own count (less the one that asks)."""
        with urlopen(f"{self.url}/status", timeout=5) as reply:
            accepted, _, requests = reply.read().split(b"\n")[2].split()
        return int(accepted) - 1, int(requests) - 1

    def wait_idle(self) -> None:
        """Wait until nobody calls. wrk hangs up in the middle of requests, which a paywall then finishes."""
        limit, before = time.monotonic() + _START_SECONDS, -1
        while (now := self.count()[1]) != before + 1 and time.monotonic() < limit:  # the count itself
            before = now
            time.sleep(_LOOK_SECONDS)


class Server:
    """A server with one contestant's app, and its worker processes."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.url = f"http://{HOST}:{port}"

    @property
    def folder(self) -> Path:
        """A folder that lasts as long as the server does."""
        return self._log.parent

    def pids(self) -> list[int]:
        """Return the server's process and all processes below it."""
        parents = dict(filter(None, (_read_parent(path) for path in Path("/proc").glob("[0-9]*"))))
        found = [self._process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def cpu_seconds(self) -> float:
        """Return user and system time of all processes, their threads included."""
        ticks = 0
        for pid in self.pids():
            fields = _read_stat(pid)
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def resident_kib(self) -> int:
        return self._sum("VmRSS")

    def peak_kib(self) -> int:
        """Return the largest resident size since `forget_peak`."""
        return self._sum("VmHWM")

    def forget_peak(self) -> None:
        for pid in self.pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def wait_idle(self) -> None:
        """Wait until all workers have started: the port is open before they have."""
        limit, before = time.monotonic() + _START_SECONDS, -1.0
        while self.cpu_seconds() > before and time.monotonic() < limit:
            before = self.cpu_seconds()
            time.sleep(_LOOK_SECONDS)

    def log_lines(self) -> list[str]:
        """Return what it wrote to its log; at this log level: only warnings and errors."""
        return self._log.read_text(errors="replace").splitlines()

    def _sum(self, name: str) -> int:
        total = 0
        for pid in self.pids():
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(next(line for line in status.splitlines() if line.startswith(name)).split()[1])
        return total


def _read_stat(pid: int) -> list[str]:
    """Return the fields after the name of the process, which may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _read_parent(path: Path) -> tuple[int, int] | None:
    try:
        return int(path.name), int(_read_stat(int(path.name))[1])
    except OSError:
        return None  # it has ended meanwhile


@contextmanager
def run_service() -> Generator[Service]:
    with TemporaryDirectory(prefix="faregate-bench-") as directory:
        os.chmod(directory, 0o755)  # nginx's worker may be another user
        port = _find_port()
        config = (HERE / "nginx.conf").read_text().replace("PORT", str(port)).replace("DIR", directory)
        path = Path(directory, "nginx.conf")
        path.write_text(config)
        command = ["nginx", "-c", str(path), "-e", f"{directory}/nginx.log"]
        with _run(command, port, {}, Path(directory)):
            yield Service(port)


class ChainService(Service):
    """The facilitator and the node of `chain.py`."""

    def count(self) -> tuple[int, int]:
        with urlopen(f"{self.url}/status", timeout=5) as reply:
            counted = json.loads(reply.read())
        return counted["connections"] - 1, counted["requests"] - 1


@contextmanager
def run_chain() -> Generator[Service]:
    with TemporaryDirectory(prefix="faregate-bench-") as directory:
        port = _find_port()
        with _run([sys.executable, str(HERE / "chain.py"), str(port)], port, {}, Path(directory)):
            yield ChainService(port)


@contextmanager
def run_server(contestant: Contestant, service: Service, window: float = DEFAULT_WINDOW) -> Generator[Server]:
    """Start the contestant with a new and empty journal."""
    with (
        TemporaryDirectory(prefix="faregate-bench-") as directory,
        _open_journal(contestant, directory) as url,
    ):
        port = _find_port()
        environ = {
            "BENCH_SERVICE": service.url,
            "BENCH_APP": contestant.app,
            "BENCH_SERVER": contestant.server,
            "BENCH_JOURNAL": url,
            "BENCH_WINDOW": str(window),
        }
        command = _build_command(contestant, port)
        if contestant.on_one_processor:
            command = ["taskset", "-c", "0", *command]
        with _run(command, port, environ, Path(directory)) as process:
            server = Server(process, port, Path(directory, "log"))
            if contestant.workers > 1:
                server.wait_idle()
            yield server


def find_missing(contestant: Contestant) -> str:
    """Return what this contestant needs and this machine lacks; empty if nothing."""
    return {"postgres": POSTGRES_MISSING, "redis": REDIS_MISSING}.get(contestant.journal, "")


@contextmanager
def _open_journal(contestant: Contestant, directory: str) -> Generator[str]:
    if contestant.journal == "postgres":
        with postgres_server() as url:
            yield url
    elif contestant.journal == "redis":
        with redis_server() as url:
            yield url
    else:
        yield "memory:" if contestant.journal == "memory" else f"sqlite:///{directory}/journal.db"


def _build_command(contestant: Contestant, port: int) -> list[str]:
    apps, module = str(HERE / "apps"), f"{contestant.framework}_app:{contestant.app}"
    workers = ["--workers", str(contestant.workers)] if contestant.workers > 1 else []
    if contestant.server == "gthread":
        own = ["--worker-class", "gthread", "--threads", "16", "--chdir", apps, "--bind", f"{HOST}:{port}"]
        return [sys.executable, "-m", "gunicorn", f"{module}()", *own, *workers, "--log-level", "warning"]
    own = ["--factory", "--app-dir", apps, "--port", str(port), "--loop", "uvloop", "--http", "httptools"]
    return [
        sys.executable,
        "-m",
        "uvicorn",
        module,
        *own,
        *workers,
        "--no-access-log",
        "--log-level",
        "warning",
    ]


@contextmanager
def _run(
    command: list[str], port: int, environ: Mapping[str, str], directory: Path
) -> Generator["subprocess.Popen[bytes]"]:
    # Proxies and settings of the shell must play no part.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("FAREGATE_")
    }
    with Path(directory, "log").open("wb") as log:
        process = subprocess.Popen(command, env={**kept, **environ}, stdout=log, stderr=log)
        try:
            _wait_for(process, port, Path(directory, "log"))
            yield process
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    limit = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
