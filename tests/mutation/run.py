"""Break each rule of `rules.py` in a copy of the project and see its tests fail.

    python tests/mutation/run.py [part of a name or of a file]...
    python tests/mutation/run.py --full    # with the tests that the ordinary suite leaves out

Exits 0 only if every mutant was caught. The working tree is never touched.
"""

import compileall
import contextlib
import gc
import importlib
import multiprocessing
import os
import py_compile
import shutil
import signal
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutation.rules import MUTANTS, Mutant  # noqa: E402

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
FAILED = (1, 8)
"""The exit codes of failed tests: pytest's own, and `NOT_REPEATED` of `tests/conftest.py`."""
SECONDS = 900
RECURSION_LIMIT = sys.getrecursionlimit()
OURS = ("faregate", "tests", "examples", "benchmarks")
"""Never preloaded: a mutant must be imported."""
NOT_PRELOADED = (
    *(
        "anyio.pytest_plugin",
        "xdist",
        "_hypothesis_pytestplugin",
        "_hypothesis_ftz_detector",
    ),  # pytest loads them
    *("django.contrib", "rest_framework", "ninja", "corsheaders"),  # they need the settings of a project
)
ROOT_FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md")
"""Some tests read them when they are imported."""
_context = multiprocessing.get_context("fork")


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return check()
    options = (*OPTIONS, "--full") if "--full" in arguments else OPTIONS
    wanted = [argument for argument in arguments if argument != "--full"] or [""]
    chosen = [mutant for mutant in MUTANTS if any(part in f"{mutant.name} {mutant.file}" for part in wanted)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "docs", "examples", *ROOT_FILES):
            _copy(ROOT / name, copy / name)
        (ROOT / ".cache").mkdir(exist_ok=True)
        (copy / ".cache").symlink_to(ROOT / ".cache")  # the local chain, installed once
        _compile(copy)
        _preload(chosen, copy)
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            caught = _caught(mutant, copy, options)
            print(
                f"{number:3}/{len(chosen)} {'caught  ' if caught else 'SURVIVED'} "
                f"{mutant.name} ({time.monotonic() - began:.0f} s){_find_failure(copy) if caught else ''}",
                flush=True,
            )
            if not caught:
                survivors.append(mutant.name)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught", *survivors)
    return 1 if survivors or not chosen else 0


def check() -> int:
    """Print each rule that does not match: its text, a file or a test is gone, or its name is used twice."""
    stale = [f"{mutant.name}: {problem}" for mutant in MUTANTS for problem in _find_problems(mutant)]
    names = Counter(mutant.name for mutant in MUTANTS)
    stale += [f"{name}: used twice" for name, times in names.items() if times > 1]
    print(*stale, f"{len(MUTANTS)} rules, {len(stale)} problems", sep="\n")
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


def _caught(mutant: Mutant, copy: Path, options: tuple[str, ...]) -> bool:
    """Whether a test really failed: not one of pytest's own troubles."""
    file = copy / mutant.file
    source = file.read_text()
    if source.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: its text stands {source.count(mutant.old)} times in {mutant.file}")
    file.write_text(source.replace(mutant.old, mutant.new))
    try:
        code = _run_pytest((*options, *mutant.tests), copy, _Order(mutant.file))
    finally:
        file.write_text(source)
    failed = code in FAILED and bool(_find_failure(copy))
    if not failed and code != 0:
        print(f"{(copy / 'output').read_text()[-3000:]}\npytest ended with {code}", flush=True)
    return failed


def _find_failure(copy: Path) -> str:
    """Return which test failed, as pytest says it."""
    lines = (copy / "output").read_text().splitlines()
    return next((f" {line:.150}" for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))), "")


def _compile(copy: Path) -> None:
    """Compile the package once, so that it counts for the same text only: a mutant may have its length."""
    compileall.compile_dir(
        copy / "src", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )


def _preload(mutants: Sequence[Mutant], copy: Path) -> None:
    """Import what the tests import from other projects, and compile those tests."""
    files = {
        word.partition("::")[0] for mutant in mutants for word in mutant.tests if word.startswith("tests/")
    }
    if _run_pytest(("--collect-only", *OPTIONS, *sorted(files)), copy, _Imports(copy / "modules")) != 0:
        raise SystemExit((copy / "output").read_text()[-2000:])
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in (copy / "modules").read_text().split():
        if not _is_below(name, (*OURS, *NOT_PRELOADED)):
            with contextlib.suppress(Exception):  # pytest would then import it, or its tests fail
                importlib.import_module(name)
    sys.setrecursionlimit(RECURSION_LIMIT)  # py-evm raises it, and deep JSON would then end the process
    gc.collect()
    gc.freeze()


def _is_below(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _run_pytest(arguments: tuple[str, ...], copy: Path, plugin: object) -> int | None:
    """Return the exit code of a fork of this process; `None` if it took too long. The output is in `copy`."""
    process = _context.Process(target=_be_pytest, args=(arguments, copy, plugin))
    process.start()
    process.join(SECONDS)
    if process.is_alive() and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def _be_pytest(arguments: tuple[str, ...], copy: Path, plugin: object) -> None:
    """In the fork: what `python -m pytest` does."""
    os.setpgid(0, 0)
    with (copy / "output").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy / "src")
    sys.path[:] = [
        str(copy),
        str(copy / "src"),
        *(path for path in sys.path if not path.startswith(str(ROOT / "tests")) and path != str(ROOT)),
    ]
    sys.argv = ["pytest", *arguments]
    sys.modules["__main__"] = types.ModuleType("__main__")
    for name in [name for name in sys.modules if _is_below(name, OURS)]:
        del sys.modules[name]
    sys.exit(int(pytest.main(list(arguments), [plugin])))


class _Imports:
    """Writes down what was imported to collect the tests."""

    def __init__(self, names: Path) -> None:
        self._names = names

    def pytest_collection_finish(self) -> None:
        self._names.write_text("\n".join(sys.modules))


class _Order:
    """Begins with the tests that are likely to fail, and ends with those that start servers."""

    def __init__(self, broken: str) -> None:
        self._folder = f"tests/{Path(broken).parts[2]}/"
        self._stem = Path(broken).stem

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        from tests.conftest import is_quick  # that of the copy

        def place(item: pytest.Item) -> tuple[bool, bool, bool]:
            named = item.nodeid.partition("::")[0]
            return not is_quick(item), self._stem not in named, not named.startswith(self._folder)

        items.sort(key=place)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
