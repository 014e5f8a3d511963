"""A log that several processes write."""

import json
import os
from pathlib import Path


def append_line(log: Path | str, **fields: object) -> None:
    """One line, in one write: lines of several processes do not mix."""
    line = json.dumps(fields)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
