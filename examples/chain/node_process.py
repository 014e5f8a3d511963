"""Run a node of the local chain as a process that never outlives this one."""

import re
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_LISTENS: Final = re.compile(rb"Listening on (127\.0\.0\.1:\d+)")
_START_SECONDS: Final = 30.0
# The shell ends the node when its own input ends, and so also if we are killed.
_LIFELINE: Final = """
exec 3<&0
"$@" 3<&- & node=$!
{ read -r _ <&3; kill "$node"; } & reader=$!
wait "$node"
kill "$reader"
"""


class NoNode(Exception):
    """A node cannot be had on this machine, or did not start; the message says why."""


@contextmanager
def run_node(name: str, command: Sequence[str]) -> Generator[str]:
    """Run a node until the block ends; give its RPC URL once it says where it listens. Raises `NoNode`."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["sh", "-c", _LIFELINE, "sh", *command],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours: we end it, in order
        )
        try:
            yield f"http://{_wait_for_address(name, process, log)}"
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


def _wait_for_address(name: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        has_ended = process.poll() is not None
        log.seek(0)
        said = log.read()
        if found := _LISTENS.search(said):
            return found[1].decode()
        if has_ended or time.monotonic() > give_up:
            raise NoNode(f"{name} did not start: {said.decode(errors='replace')[-400:] or 'it said nothing'}")
        time.sleep(0.02)
