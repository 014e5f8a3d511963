"""Break each rule of `rules.py` and of `spec.py` in a copy of the project and see its tests fail.

    python tests/mutation/run.py [part of a name]...
    python tests/mutation/run.py spec-    # those of docs/contributing/spec-coverage.md, one for each row

Exits 0 only if every mutant was caught. The working tree is never touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutation.rules import MUTANTS, Mutant  # noqa: E402
from tests.mutation.spec import BREAKS, row_of, rows, spec_mutants  # noqa: E402


def main(arguments: list[str]) -> int:
    mutants = (*MUTANTS, *spec_mutants())
    if arguments == ["--check"]:
        return check(mutants)
    wanted = arguments or [""]
    chosen = [mutant for mutant in mutants if any(part in mutant.name for part in wanted)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "docs", "examples", "pyproject.toml", "README.md"):
            _copy(ROOT / name, copy / name)
        (ROOT / ".cache").mkdir(exist_ok=True)
        (copy / ".cache").symlink_to(ROOT / ".cache")  # the local chain, installed once
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            caught = _caught(mutant, copy)
            print(
                f"{number:3}/{len(chosen)} {'caught  ' if caught else 'SURVIVED'} "
                f"{mutant.name} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            if not caught:
                survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught", *survivors)
    return 1 if survivors or not chosen else 0


def check(mutants: Sequence[Mutant]) -> int:
    """Print each rule that does not match: its text, a file or a test is gone, or a row has no rule."""
    stale = [f"{mutant.name}: {problem}" for mutant in mutants for problem in _find_problems(mutant)]
    stale += [
        f"{name}: used twice" for name, times in Counter(one.name for one in mutants).items() if times > 1
    ]
    broken = [row_of(one) for one in BREAKS]
    stale += [f"{row}: in {broken.count(row)} rules" for row in rows() if broken.count(row) != 1]
    print(*stale, f"{len(mutants)} rules, {len(stale)} problems", sep="\n")
    return 1 if stale else 0


def _find_problems(mutant: Mutant) -> Iterator[str]:
    file = ROOT / mutant.file
    count = file.read_text().count(mutant.old) if file.exists() else 0
    if count != 1:
        yield f"its text stands {count} times in {mutant.file}"
    if mutant.new == mutant.old:
        yield "it changes nothing"
    if not mutant.tests:
        yield "it names no test"
    for word in mutant.tests:
        if word.startswith("tests/") and not (ROOT / word.partition("::")[0]).exists():
            yield f"{word} is not there"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _caught(mutant: Mutant, copy: Path) -> bool:
    file = copy / mutant.file
    source = file.read_text()
    if source.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: its text stands {source.count(mutant.old)} times in {mutant.file}")
    file.write_text(source.replace(mutant.old, mutant.new))
    try:
        return _fails(mutant.tests, copy)
    finally:
        file.write_text(source)


def _fails(tests: tuple[str, ...], copy: Path) -> bool:
    """Whether a test really failed: pytest's exit code 1, not one of its own troubles."""
    command = [sys.executable, "-m", "pytest", "--full", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600)
    if run.returncode not in (0, 1):
        raise SystemExit(run.stdout + run.stderr)
    return run.returncode == 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
