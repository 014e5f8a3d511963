"""What a wait costs the code that runs after it: the same sale, at once and after waits of several kinds.

    .venv-faregate/bin/python benchmarks/waits.py  # half a minute

While a thread waits, the processor's caches and its predictions of branches are given to others, and its
clock may slow down. The sale is that of Flask in `in_process.py`: it makes no system call of its own, so it
runs the same instructions each time. Microseconds of its thread's processor time, without the wait.
Medians, in turns.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from in_process import CASES, Subject, make_environ

ROUNDS: Final = 7
SALES: Final = 200
"""Of each round."""


class OtherThread:
    """A thread that is handed a piece of work, as a journal's writer is."""

    def __init__(self) -> None:
        self._asked, self._answered = threading.Event(), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def call(self) -> None:
        self._asked.set()
        self._answered.wait()
        self._answered.clear()

    def _run(self) -> None:
        while self._asked.wait():
            self._asked.clear()
            sum(range(2_000))
            self._answered.set()


def measure(subject: Subject, wait: Callable[[], object]) -> float:
    took: list[float] = []
    for proof in subject.make_proofs(SALES):
        environ = make_environ("/report", proof)
        wait()
        began = time.thread_time()
        b"".join(subject.app(environ, lambda *_: None))
        took.append(time.thread_time() - began)
    return median(took) * 1e6


def main() -> None:
    subject = Subject("flask")
    subject.ask(200, *CASES["paid"][0])
    with tempfile.TemporaryFile(dir=".") as file:

        def sync() -> None:
            os.pwrite(file.fileno(), b"x" * 8192, 0)
            os.fdatasync(file.fileno())

        waits: dict[str, Callable[[], object]] = {
            "at once": lambda: None,
            "after another thread": OtherThread().call,
            "after a write that is synced": sync,
            "after 0.3 ms of sleep": lambda: time.sleep(0.0003),
            "after 3 ms of sleep": lambda: time.sleep(0.003),
        }
        costs: dict[str, list[float]] = {name: [] for name in waits}
        for _ in range(ROUNDS):
            for name, wait in waits.items():
                costs[name].append(measure(subject, wait))
    print("| the same sale | CPU us | x at once |\n|---|---:|---:|")
    for name, taken in costs.items():
        ratio = median(mine / other for mine, other in zip(taken, costs["at once"], strict=True))
        print(f"| {name} | {median(taken):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
