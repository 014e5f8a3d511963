"""One measurement: wrk for so many seconds, and what it cost the server and the service."""

import json
import subprocess
from dataclasses import dataclass

from harness.check import InvalidRun
from harness.contestants import Contestant, Kind
from harness.processes import HERE, Server, Service

_GRACE_SECONDS = 30
_sent: dict[str, int] = {}
"""How many proofs of each file were sent."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round of one contestant. `cpu_us` is processor time per request of all processes of the server."""

    kind: str
    contestant: str
    payers: int
    round: int
    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    calls_per_request: float
    connections: int
    resident_kib: int
    log_lines: int


def measure(
    kind: Kind,
    contestant: Contestant,
    payers: int,
    number: int,
    server: Server,
    service: Service,
    proof: str,
    seconds: float,
) -> Measurement:
    """Raise `InvalidRun` for a single reply that was not the expected one, or a wrong number of calls."""
    connections, calls = service.count()
    busy = server.cpu_seconds()
    seen = load(kind, contestant, server, proof, payers, seconds)
    busy = server.cpu_seconds() - busy
    connections_after, calls_after = service.count()
    requests = int(seen["requests"])
    made = calls_after - calls - 1  # the first count itself
    _check_counts(kind, contestant, payers, seen, made)
    return Measurement(
        kind.name,
        contestant.name,
        payers,
        number,
        requests,
        requests / seen["seconds"],
        seen["p50_ms"],
        seen["p99_ms"],
        busy / requests * 1e6,
        made / requests,
        connections_after - connections - 1,
        server.resident_kib(),
        len(server.log_lines()),
    )


def load(
    kind: Kind, contestant: Contestant, server: Server, proof: str, payers: int, seconds: float
) -> dict[str, float]:
    """Return what wrk saw. One thread is enough: it is far faster than any contestant."""
    options = ["-t", "1", "-c", str(payers), "-d", f"{max(1, round(seconds))}s", "--timeout", "10s"]
    sent = [proof if kind.paid else "", "unique" if kind.paid and contestant.has_unique_proofs else "same"]
    if kind.paid and contestant.has_signed_proofs:
        sent = [proof, "signed", str(_sent.get(proof, 0))]
    if kind.opens_first:
        sent += ["open-first", str(payers)]
    script = ["-s", str(HERE / "load.lua"), server.url, "--", kind.path, *sent]
    done = subprocess.run(
        ["wrk", *options, *script],
        capture_output=True,
        text=True,
        timeout=seconds + _GRACE_SECONDS,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or len(found) != 1:
        raise InvalidRun(f"wrk failed: {done.stdout}{done.stderr}")
    seen: dict[str, float] = json.loads(found[0].removeprefix("RESULT "))
    _sent[proof] = _sent.get(proof, 0) + int(seen["requests"]) + 2 * payers
    return seen


def _check_counts(kind: Kind, contestant: Contestant, payers: int, seen: dict[str, float], made: int) -> None:
    refused = seen["refused"] if kind.status < 400 else seen["requests"] - seen["refused"]
    if seen["requests"] == 0 or refused or seen["broken"]:
        raise InvalidRun(
            f"{contestant.name}, {kind.name}, {payers} payers: not every reply was right: {seen}"
        )
    # What was in flight when wrk hung up, now or before, was called for but not counted by it.
    each, most = kind.calls(contestant), kind.calls_at_most(contestant)
    slack = 2 * payers + 8  # and each worker reads the contracts now and then
    if not each * seen["requests"] <= made <= most * (seen["requests"] + slack):
        raise InvalidRun(f"{contestant.name}, {kind.name}: {made} calls behind {seen['requests']} requests")
