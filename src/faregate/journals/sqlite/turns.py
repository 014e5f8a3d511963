"""Whose turn it is to write to a file of SQLite, among the threads of this process.

SQLite lets one writer in at a time, and those who wait must try again and again. A journal and the service
may share a file: here their threads wait for each other without that. Other processes are still waited for
by trying.
"""

import os
import threading

_turns: dict[str, threading.Lock] = {}


def get_turn(path: str | os.PathLike[str]) -> threading.Lock:
    """Return the lock to hold while this file is written to. A forked child has others."""
    name = os.fspath(path)
    return _turns.get(name) or _turns.setdefault(name, threading.Lock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turns.clear)
