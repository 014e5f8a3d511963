"""Processes that have a journal open and run a piece of code."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


OPENED = """
import json, os, signal, sys, threading, time
from pathlib import Path
from faregate.core.claims import Claimed, InProgress
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.stores import STORED, Clock, disconnect
from tests.journals.rows import GOOD, HERE, WORK_SECONDS
place = Path(sys.argv[2])
journal = STORED[sys.argv[1]](place, Clock(float(sys.argv[3])))
def wait_for(name):
    end = time.monotonic() + 30
    while not (place / name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.002)
"""


def run(kind: str, place: Path, code: str, now: float = 1000.0) -> subprocess.Popen[str]:
    """A process that has `journal` open (so to say: it opens at its first use) and runs `code`."""
    command = [sys.executable, "-c", OPENED + code, kind, str(place), str(now)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str], status: int = 0) -> Any:
    output, _ = process.communicate(timeout=60)
    assert process.returncode == status
    return json.loads(output) if output else None


def all_said(processes: list[subprocess.Popen[str]]) -> list[Any]:
    return sorted(answer for process in processes for answer in said(process))


RACE = """
fresh, barrier = [], threading.Barrier(4)
def claim_all():
    barrier.wait()
    for number in range(10):
        claim = journal.claim(f"proof {number}", HERE)
        assert isinstance(claim, Claimed | InProgress)
        if isinstance(claim, Claimed):
            fresh.append(number)
    disconnect(journal)
(place / str(os.getpid())).touch()
wait_for("go")
threads = [threading.Thread(target=claim_all) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(fresh))
"""


def start_together(racers: list[subprocess.Popen[str]], place: Path) -> None:
    while not all((place / str(racer.pid)).exists() for racer in racers):
        assert all(racer.poll() is None for racer in racers)
        time.sleep(0.01)
    (place / "go").touch()
