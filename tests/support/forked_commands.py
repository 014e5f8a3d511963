"""Commands for a shell that are forked from the preloaded process (`preloaded.py`), not started anew."""

import sys
from pathlib import Path

from tests.support.preloaded import find_address, start_server

COMMANDS = ("faregate", "uvicorn")
_SCRIPT = """#!{python} -IS
import json, os, signal, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
words = ["-m", {module!r}, *sys.argv[1:]]
start = {{"words": words, "environ": dict(os.environ), "cwd": os.getcwd()}}
socket.send_fds(connection, [json.dumps(start).encode()], [0, 1, 2])
lines = connection.makefile()
pid = int(lines.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
status = int(lines.readline())
sys.exit(status if status >= 0 else 128 - status)
"""


def write_commands(folder: Path) -> Path:
    """Write them into a folder of this folder, for the `programs` of a `Terminal`, and return it."""
    start_server()
    place = folder / "commands"
    place.mkdir()
    for command in COMMANDS:
        script = place / command
        script.write_text(
            _SCRIPT.format(python=sys.executable, address=find_address(), module=command), encoding="utf-8"
        )
        script.chmod(0o755)
    return place
