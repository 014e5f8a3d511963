"""A user's pytest, in a process of its own, with the plugins that a user has."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.preloaded import run_preloaded

OURS = ("faker", "hypothesispytest", "schemathesis")
"""Plugins of the tools of this repository, which take a second of each start."""
WITHOUT_OURS = tuple(part for name in OURS for part in ("-p", f"no:{name}"))


OPTIONS = ("-rA", "-p", "no:cacheprovider", *WITHOUT_OURS)
IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"
"""Modules of other plugins that are imported already: pytest says that their assertions will be terse."""


def run(place: Path, *arguments: str) -> str:
    """Return what pytest prints; each test has a line with its outcome."""
    words = ["-m", "pytest", *OPTIONS, "-W", IMPORTED, *arguments]
    done = run_preloaded(words, _build_environment(), place)
    return done.stdout + done.stderr


def run_anew(place: Path, *arguments: str) -> str:
    """Like `run`, in a process that imports everything itself."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    done = subprocess.run(
        command, cwd=place, env=_build_environment(), capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def _build_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("FAREGATE", "PYTEST"))}
