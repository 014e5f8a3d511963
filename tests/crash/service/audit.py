"""What `faregate service reconcile --all` says of a campaign's books, and what it must say."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.crash.service.environment import Environment

_SECONDS: Final = 120.0
_DIFFERENT: Final = 1


@dataclass(frozen=True)
class Audit:
    """What the command found: `named` has the kind of each difference, and whose it is."""

    named: frozenset[tuple[str, str]] = frozenset()
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    failure: str = ""
    """Why there is no result."""


def run_audit(environment: Environment, folder: Path) -> Audit:
    """Run the command with the settings of the service, as an operator does at night."""
    config = folder / "audit.toml"
    config.write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in environment.settings.items())
    )
    command = [sys.executable, "-m", "faregate", "service", "reconcile", "--all", "--json"]
    ran = subprocess.run(
        [*command, "--config", str(config)], capture_output=True, text=True, timeout=_SECONDS
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode not in (0, _DIFFERENT) or not lines or "is_equal" not in lines[-1]:
        return Audit(failure=f"exit status {ran.returncode}: {ran.stderr[-1000:]}")
    return Audit(_read_differences(lines), lines[-1])


def _read_differences(lines: Sequence[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (line["kind"], line["transaction"] or line["transaction_hash"]) for line in lines if "kind" in line
    )
