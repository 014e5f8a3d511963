"""One measurement: wrk for so many seconds, and what it cost the server and the upstream."""

import json
import subprocess
from dataclasses import asdict, dataclass
from typing import Any

from harness.contestants import Case, Contestant
from harness.processes import HERE, Server, Upstream

_GRACE = 30


class Wrong(Exception):
    """A contestant did not do what it is being measured for: its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one contestant. Times of the processor are per request, in microseconds."""

    case: str
    contestant: str
    payers: int
    round: int
    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    processor_us: float
    calls_per_request: float
    connections: int
    resident_kib: int
    complaints: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    case: Case,
    contestant: Contestant,
    payers: int,
    number: int,
    server: Server,
    behind: Upstream,
    proof: str,
    seconds: float,
) -> Measured:
    """Raises `Wrong` if a single reply was not the expected one, or the calls behind do not add up."""
    unique = contestant.takes == "any"
    connections, calls = behind.counted()
    busy = server.processor_seconds()
    seen = load(server, case.path, proof if case.paid else "", unique and case.paid, payers, seconds)
    busy = server.processor_seconds() - busy
    connections_after, calls_after = behind.counted()
    requests = int(seen["requests"])
    made = calls_after - calls - 1  # the first count itself
    _check(case, contestant, payers, seen, made)
    return Measured(
        case.name,
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
        len(server.complaints()),
    )


def load(
    server: Server, path: str, proof: str, unique: bool, payers: int, seconds: float
) -> dict[str, float]:
    """What wrk saw. One thread is enough: it is far faster than any contestant."""
    options = ["-t", "1", "-c", str(payers), "-d", f"{max(1, round(seconds))}s", "--timeout", "10s"]
    script = ["-s", str(HERE / "load.lua"), server.url, "--", path, proof, "unique" if unique else "same"]
    done = subprocess.run(
        ["wrk", *options, *script], capture_output=True, text=True, timeout=seconds + _GRACE, check=False
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or len(found) != 1:
        raise Wrong(f"wrk failed: {done.stdout}{done.stderr}")
    seen: dict[str, float] = json.loads(found[0].removeprefix("RESULT "))
    return seen


def _check(case: Case, contestant: Contestant, payers: int, seen: dict[str, float], made: int) -> None:
    refused = seen["refused"] if case.status < 400 else seen["requests"] - seen["refused"]
    if seen["requests"] == 0 or refused or seen["broken"]:
        raise Wrong(f"{contestant.name}, {case.name}, {payers} payers: not every reply was right: {seen}")
    # What was in flight when wrk hung up, now or after the warm-up, was called for but not counted by it.
    each = case.calls[contestant]
    if not each * seen["requests"] <= made <= each * (seen["requests"] + 2 * payers):
        raise Wrong(f"{contestant.name}, {case.name}: {made} calls behind {seen['requests']} requests")
