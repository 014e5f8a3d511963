"""Holds one server: `python supervisor.py COMMAND...` ends it, and all it started, when standard input ends.

However the tests end, their end of that pipe is closed. The server has a process group of its own.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

GRACE = 1.5


def main(command: list[str]) -> None:
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while server.poll() is None and not select.select([sys.stdin], [], [], 0.1)[0]:
            pass
        end(server)
    finally:
        tell(server, signal.SIGKILL)  # workers that outlive their master
        server.wait()


def end(server: "subprocess.Popen[bytes]") -> None:
    tell(server, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while server.poll() is None and time.monotonic() < until:
        time.sleep(0.02)


def tell(server: "subprocess.Popen[bytes]", what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, what)


if __name__ == "__main__":
    main(sys.argv[1:])
