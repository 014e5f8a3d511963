"""Processes that have a journal open and run a piece of code."""

import json
import time
from pathlib import Path
from typing import Any

from tests.support.preloaded import PreloadedPython

OPENED = """
import json, os, signal, sys, threading, time
from pathlib import Path
from faregate.core.claim_types import Claimed, InProgress
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.stores import STORED, Clock, disconnect
from tests.journals.rows import GOOD, HERE, WORK_SECONDS
kind, place, now, copies = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
if copies:
    if kind.startswith("django"):
        disconnect(STORED[kind](place, Clock()))
    children = []
    while len(children) < copies and (not children or children[-1]):
        children.append(os.fork())
    if children[-1]:
        sys.exit(max(os.waitpid(child, 0)[1] for child in children) and 1)
journal = STORED[kind](place, Clock(now))
def wait_for(name):
    end = time.monotonic() + 30
    while not (place / name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.002)
"""


def run(kind: str, place: Path, code: str, now: float = 1000.0, copies: int = 0) -> PreloadedPython:
    """A process that has `journal` open (so to say: it opens at its first use) and runs `code`.

    With `copies`, so many of its children do that instead, each with a journal of its own.
    """
    return PreloadedPython(["-c", OPENED + code, kind, str(place), str(now), str(copies)])


def said(process: PreloadedPython, status: int = 0) -> Any:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == status
    return json.loads(output) if output else None


START = """
(place / f"started {os.getpid()}").touch()
wait_for("go")
"""


def run_together(kind: str, place: Path, code: str, copies: int, now: float = 1000.0) -> list[Any]:
    """Run `code` in so many processes, from `START` on at once; return the items that they print, sorted."""
    with run(kind, place, code, now, copies) as parent:
        while len(list(place.glob("started *"))) < copies:
            assert parent.poll() is None
            time.sleep(0.01)
        (place / "go").touch()
        output, _ = parent.communicate(timeout=60)
    lists = [json.loads(line) for line in output.splitlines()]
    assert (parent.returncode, len(lists)) == (0, copies)
    return sorted(item for each in lists for item in each)


RACE = f"""
fresh, barrier = [], threading.Barrier(4)
def claim_all():
    barrier.wait()
    for number in range(10):
        claim = journal.claim(f"proof {{number}}", HERE)
        assert isinstance(claim, Claimed | InProgress)
        if isinstance(claim, Claimed):
            fresh.append(number)
    barrier.wait()  # to disconnect gives back the lock of the process, and with it claims under way
    disconnect(journal)
{START}
threads = [threading.Thread(target=claim_all) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(fresh) + "\\n", end="", flush=True)  # one write: processes share the pipe
"""
