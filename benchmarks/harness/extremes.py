"""Large results, memory over very many payments, and imports: measured once, beside the rounds."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from tempfile import TemporaryDirectory

from harness.check import InvalidRun
from harness.contestants import BARE, FAST, PAID, SQLITE, Contestant
from harness.http import ask
from harness.load import load
from harness.processes import Server, Service, run_server
from harness.proof_template import fill, make_serial
from harness.proofs import build_proof

MIB = 1 << 20
IMPORTS = {
    "faregate.starlette": "starlette.applications",
    "faregate.fastapi": "fastapi",
    "faregate.flask": "flask",
}
_IMPORTS = 7
SIZES = (1, 5, 20)
_REPEATS_MIB = 100
"""How much is bought of each size, to time it: processor time is counted in steps of 10 ms."""
_MEMORY_WINDOW = 5.0
"""Seconds until a row of the memory case may expire."""
_MEMORY_PAYERS = 16
_MEMORY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class LargeResult:
    """One size of result. `growth_mib` is how far the process grew for the first one, at its peak."""

    contestant: str
    mib: int
    cpu_ms: float
    growth_mib: float


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The resident memory after so many paid requests."""

    requests: int
    resident_mib: float


@dataclass(frozen=True, slots=True)
class ImportCost:
    """Processor time of an import, beyond that of the framework."""

    module: str
    cpu_ms: float


def measure_imports() -> Iterator[ImportCost]:
    """Import each module in new processes that have imported its framework already."""
    with TemporaryDirectory() as compiled:
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        # Where it is set, each process would compile all modules anew.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for module, framework in IMPORTS.items():
            code = f"import {framework}, time; began = time.process_time(); import {module}"
            command = [sys.executable, "-c", f"{code}; print(time.process_time() - began)"]
            runs = [
                subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
                for _ in range(_IMPORTS)
            ]
            yield ImportCost(module, median(float(run.stdout) for run in runs) * 1e3)


def measure_large(service: Service) -> Iterator[LargeResult]:
    """Buy results of each size, one at a time; each size from a server of its own."""
    for contestant in (BARE, FAST, SQLITE):
        for mib in SIZES:
            with run_server(contestant, service) as server:
                yield _measure_size(server, contestant, mib)


def _measure_size(server: Server, contestant: Contestant, mib: int) -> LargeResult:
    proof = build_proof(server, contestant)
    ask(server.url + PAID.path, fill(proof, make_serial()))
    before = server.resident_kib()
    server.forget_peak()
    _buy(server, contestant, mib, proof)
    growth = (server.peak_kib() - before) / 1024
    busy, repeats = server.cpu_seconds(), _REPEATS_MIB // mib
    for _ in range(repeats):
        _buy(server, contestant, mib, proof)
    return LargeResult(contestant.name, mib, (server.cpu_seconds() - busy) / repeats * 1e3, growth)


def _buy(server: Server, contestant: Contestant, mib: int, proof: str) -> None:
    reply = ask(f"{server.url}/blob/{mib * MIB}", fill(proof, make_serial()))
    if reply.status != 200 or len(reply.body) != mib * MIB:
        raise InvalidRun(f"{contestant.name}: {mib} MiB: status {reply.status}: {reply.body[:300]!r}")


def measure_memory(service: Service, requests: int) -> Iterator[MemorySample]:
    """Pay `requests` times while rows expire, and look at the memory now and then."""
    with run_server(replace(FAST, name="memory"), service, _MEMORY_WINDOW) as server:
        proof, paid = build_proof(server, FAST), 0
        while paid < requests:
            seconds = min(_MEMORY_SECONDS, max(1, requests // 1000))
            seen = load(PAID, FAST, server, proof, _MEMORY_PAYERS, seconds)
            if seen["refused"] or seen["broken"] or not seen["requests"]:
                raise InvalidRun(f"memory, after {paid:,} payments: not every reply was right: {seen}")
            paid += int(seen["requests"])
            yield MemorySample(paid, server.resident_kib() / 1024)
