"""Run calls in threads."""

import threading
from collections.abc import Callable, Iterable
from typing import Any


def start_threads(*calls: Callable[[], Any]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join_threads(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


def run_in_threads(*calls: Callable[[], Any]) -> None:
    """Run each call in a thread of its own, and wait for all."""
    join_threads(start_threads(*calls))
