"""Schemathesis over the emulator, by the shipped document: clean, over a real server, with a real key.

By hand, longer: `python -m tests.merchant.openapi.test_schemathesis 200` (see docs/service-openapi.md).
"""

import os
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Delivery, Emulator
from faregate.emulator.server import serve

from .conformance import assert_conforms, description

HERE = Path(__file__).parent
DOCUMENT = str(files("faregate.merchant").joinpath("openapi.json"))


class Recorder(Emulator):
    """Remembers what it was asked and what it answered."""

    def __init__(self) -> None:
        super().__init__(expose_execution_id=True)
        self.told: list[tuple[WireRequest, Response]] = []

    def deliver(self, request: WireRequest) -> Delivery:
        delivery = super().deliver(request)
        self.told.append((request, delivery.response))
        return delivery

    def counted(self) -> Counter[tuple[str, int]]:
        """How often each operation gave each status."""
        found = ((description().operation(request), response.status) for request, response in self.told)
        return Counter((operation.told["operationId"], status) for operation, status in found if operation)


def run(emulator: Emulator, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`st run` over this emulator. Hooks make what should be taken acceptable (known.py)."""
    config = ("--config-file", str(HERE / "schemathesis.toml"))
    with serve(emulator) as url:
        known = {"EMULATOR_URL": url, "EMULATOR_KEY": TEST_KEY, "PYTHONPATH": str(HERE.parents[2])}
        target = (DOCUMENT, "--url", url, "--header", f"Authorization: Bearer {TEST_KEY}")
        command = [sys.executable, "-m", "schemathesis.cli", *config, "run", *target, "--no-color", *options]
        return subprocess.run(
            command,
            cwd=directory,
            env=os.environ | known,
            capture_output=True,
            text=True,
            timeout=3600,
            check=False,
        )


def test_it_finds_nothing(tmp_path: Path) -> None:
    emulator = Recorder()
    done = run(emulator, tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
    for request, response in emulator.told:
        assert_conforms(request, response)
    counted = emulator.counted()
    # It got somewhere: payments were made and completed, not only refused.
    assert counted["access", 200] > 20
    assert counted["complete_transaction", 200] > 10
    assert counted["complete_resource_execution", 200] > 10
    assert len({name for name, status in counted if status == 422}) == 7
    assert len({name for name, status in counted if status == 401}) == 8


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        recorder = Recorder()
        finished = run(recorder, Path(scratch), "--max-examples", sys.argv[1])
        print(finished.stdout, finished.stderr)
        for told in recorder.told:
            assert_conforms(*told)
        for what, times in sorted(recorder.counted().items()):
            print(*what, times)
        sys.exit(finished.returncode)
