"""`benchmarks/run`: make the measurements, write them down, print the tables."""

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.contestants import CASES, Case
from harness.load import Measured, Wrong
from harness.processes import HERE
from harness.rounds import Plan, run
from harness.tables import markdown

_PACKAGES = (
    "fastapi",
    "starlette",
    "uvicorn",
    "uvloop",
    "httptools",
    "httpx",
    "h11",
    "sniffio",
    "pyreqwest",
    "x402",
)


def main() -> int:
    chosen = _arguments()
    if chosen.tables:
        print(markdown(*_read(chosen.tables)), end="")
        return 0
    cases = tuple(case for case in CASES if chosen.case in (None, case.name))
    plan = Plan(1, 1, 1, cases) if chosen.quick else Plan(chosen.rounds, chosen.seconds, 1, cases)
    measured: list[Measured] = []
    try:
        for one in run(plan):
            measured.append(one)
            _progress(one, len(measured), plan.steps())
    except Wrong as fault:
        print(f"Stopped, nothing was written: {fault}", file=sys.stderr)
        return 1
    if not chosen.quick:
        path = _written(plan, measured, chosen.out)
        print(f"Written to {os.path.relpath(path)}.\n", file=sys.stderr)
    print(markdown(cases, measured), end="")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run", description="Faregate and others, side by side.")
    parser.add_argument("--quick", action="store_true", help="one short round, only to see that it works")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of load per contestant and round")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="only this kind of request")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the figures")
    parser.add_argument("--tables", type=Path, help="measure nothing: print this file's tables")
    return parser.parse_args()


def _read(path: Path) -> tuple[list[Case], list[Measured]]:
    measured = [Measured(**one) for one in json.loads(path.read_text())["measured"]]
    present = {one.case for one in measured}
    return [case for case in CASES if case.name in present], measured


def _progress(one: Measured, done: int, steps: int) -> None:
    print(
        f"[{done}/{steps}] round {one.round} {one.case:>6} {one.payers:>2} at once  {one.contestant:<20}"
        f" {one.per_second:>8,.0f} req/s  {one.processor_us:>7,.0f} us"
        f"{f'  {one.complaints} lines in its log' if one.complaints else ''}",
        file=sys.stderr,
        flush=True,
    )


def _written(plan: Plan, measured: list[Measured], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"{now:%Y-%m-%d}.json"
    document = {
        "at": now.isoformat(timespec="seconds"),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "machine": _machine(),
        "measured": [one.as_json() for one in measured],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
    }


if __name__ == "__main__":
    sys.exit(main())
