"""The processes of a run: nginx behind, one uvicorn worker in front. Each is ended where it was begun."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from harness.contestants import Contestant

HERE = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
_TICKS = os.sysconf("SC_CLK_TCK")
_STARTS_WITHIN = 20.0


class Upstream:
    """nginx with the fixed replies of `nginx.conf`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"

    def counted(self) -> tuple[int, int]:
        """Connections and requests so far, by nginx's own count (less the one that asks)."""
        with urlopen(f"{self.url}/status", timeout=5) as reply:
            accepted, _, requests = reply.read().split(b"\n")[2].split()
        return int(accepted) - 1, int(requests) - 1


class Server:
    """One uvicorn worker with one contestant's app."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.port = port
        self.url = f"http://{HOST}:{port}"

    def processor_seconds(self) -> float:
        """User and system time of the whole process, its threads included."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1])

    def complaints(self) -> list[str]:
        """What it wrote to its log; at this log level: only warnings and errors."""
        return self._log.read_text(errors="replace").splitlines()


@contextmanager
def upstream() -> Iterator[Upstream]:
    with TemporaryDirectory(prefix="faregate-bench-") as directory:
        os.chmod(directory, 0o755)  # nginx's worker may be another user
        port = _free_port()
        config = (HERE / "nginx.conf").read_text().replace("PORT", str(port)).replace("DIR", directory)
        path = Path(directory, "nginx.conf")
        path.write_text(config)
        with _running(["nginx", "-c", str(path), "-e", f"{directory}/nginx.log"], port, {}, Path(directory)):
            yield Upstream(port)


@contextmanager
def server(contestant: Contestant, behind: Upstream) -> Iterator[Server]:
    with TemporaryDirectory(prefix="faregate-bench-") as directory:
        port = _free_port()
        options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
        command = [sys.executable, "-m", "uvicorn", f"{contestant.app}:app", "--app-dir", str(HERE / "apps")]
        environ = {"BENCH_TRANSPORT": contestant.transport, "BENCH_UPSTREAM": behind.url}
        with _running([*command, "--port", str(port), *options], port, environ, Path(directory)) as process:
            yield Server(process, port, Path(directory, "log"))


@contextmanager
def _running(
    command: list[str], port: int, environ: Mapping[str, str], directory: Path
) -> Iterator["subprocess.Popen[bytes]"]:
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
            process.terminate()
            process.wait(20)


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    limit = time.monotonic() + _STARTS_WITHIN
    while process.poll() is None and time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
