"""A user's pytest, in a process of its own, with the plugins that a user has."""

import os
import subprocess
import sys
from pathlib import Path

OURS = ("faker", "hypothesispytest", "schemathesis")
"""Plugins of the tools of this repository, which take a second of each start."""
WITHOUT_OURS = tuple(part for name in OURS for part in ("-p", f"no:{name}"))


def run(place: Path, *arguments: str) -> str:
    """What pytest prints; each test has a line with its outcome."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("FAREGATE", "PYTEST"))
    }
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *WITHOUT_OURS, *arguments]
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr
