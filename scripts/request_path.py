"""Count what a reader follows of one paid FastAPI request: calls, their files, and moves between files.

    scripts/request-path          the files in their order of first visit
    scripts/request-path --json   {"memory": {"calls", "files", "moves"}, "sqlite": {...}}

A call is each entry of a function of the package, and each time a generator or coroutine goes on. A move is
a call in another file than the call before it. The service and the emulator are left out.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from in_process import Subject  # noqa: E402

import faregate  # noqa: E402

PACKAGE = f"{Path(faregate.__file__).parent}{os.sep}"
LEFT_OUT = ("emulator", "service", "rules")
WARM_UP = 50
"""Requests before the one that is counted: caches are filled, and modules imported."""


def trace_request(journal: str) -> list[str]:
    """Serve one paid request with this journal; list the file of each call, in order."""
    os.environ["BENCH_JOURNAL"] = journal
    visited: list[str] = []

    def record(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            path = name.removeprefix(PACKAGE)
            if path.split(os.sep)[0] not in LEFT_OUT:
                visited.append(path)

    subject = Subject("fastapi")
    threading.setprofile(record)  # for the threads of a journal, which start with the first request
    subject.ask(WARM_UP, "/report", 200, True)
    visited.clear()
    subject.ask(1, "/report", 200, True, profiler=record)
    threading.setprofile(None)
    return visited


def measure(visited: list[str]) -> dict[str, int]:
    moves = sum(left != right for left, right in itertools.pairwise(visited))
    return {"calls": len(visited), "files": len(set(visited)), "moves": moves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="only the counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            "memory": trace_request("memory:"),
            "sqlite": trace_request(f"sqlite:///{folder}/journal.db"),
        }
    counts = {name: measure(visited) for name, visited in paths.items()}
    if arguments.json:
        print(json.dumps(counts))
        return
    for name, visited in paths.items():
        print(f"{name}: " + ", ".join(f"{count} {of}" for of, count in counts[name].items()))
        for path in dict.fromkeys(visited):
            print(f"  {visited.count(path):4} {path}")


if __name__ == "__main__":
    main()
