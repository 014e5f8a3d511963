"""A log that several processes write, one JSON object a line."""

import json
import os
from pathlib import Path
from typing import Any


def append_line(log: Path | str, **fields: object) -> None:
    """One line, in one write: lines of several processes do not mix."""
    line = json.dumps(fields)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def read_lines(log: Path, since: int = 0) -> list[dict[str, Any]]:
    """What was written after so many bytes; nothing where there is no log yet."""
    return [json.loads(line) for line in log.read_bytes()[since:].splitlines()] if log.exists() else []
