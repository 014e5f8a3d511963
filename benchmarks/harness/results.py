"""The figures of one run, as a file."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.extremes import ImportCost, LargeResult, MemorySample
from harness.load import Measurement
from harness.rounds import Failure

_PACKAGES = (
    "fastapi",
    "starlette",
    "uvicorn",
    "uvloop",
    "httptools",
    "flask",
    "gunicorn",
    "django",
    "httpx",
    "pyreqwest",
    "redis",
    "psycopg",
    "x402",
)


@dataclass(slots=True)
class Results:
    """All that was measured, in the order of its making."""

    at: str
    seconds: float
    cases: list[str]
    machine: dict[str, Any]
    measured: list[Measurement] = field(default_factory=list[Measurement])
    failures: list[Failure] = field(default_factory=list[Failure])
    large: list[LargeResult] = field(default_factory=list[LargeResult])
    memory: list[MemorySample] = field(default_factory=list[MemorySample])
    imports: list[ImportCost] = field(default_factory=list[ImportCost])

    def add(self, found: Measurement | Failure | LargeResult | MemorySample | ImportCost) -> None:
        if isinstance(found, Measurement):
            self.measured.append(found)
        elif isinstance(found, Failure):
            self.failures.append(found)
        elif isinstance(found, LargeResult):
            self.large.append(found)
        elif isinstance(found, ImportCost):
            self.imports.append(found)
        else:
            self.memory.append(found)

    @property
    def rounds(self) -> int:
        return max((one.round for one in self.measured), default=0)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def begin_results(seconds: float, cases: list[str]) -> Results:
    return Results(datetime.now(UTC).isoformat(timespec="seconds"), seconds, cases, _describe_machine())


def read_results(path: Path) -> Results:
    document = json.loads(path.read_text())
    return Results(
        document["at"],
        document["seconds"],
        document["cases"],
        document["machine"],
        [Measurement(**one) for one in document["measured"]],
        [Failure(**one) for one in document["failures"]],
        [LargeResult(**one) for one in document["large"]],
        [MemorySample(**one) for one in document["memory"]],
        [ImportCost(**one) for one in document["imports"]],
    )


def _describe_machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: _find_version(name) for name in _PACKAGES},
    }


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
