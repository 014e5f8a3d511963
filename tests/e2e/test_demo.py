"""`scripts/demo` tells the truth: exit 0 when all is as told, 1 when one thing is not."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.example_seller import EXAMPLE
from tests.support.preloaded import PreloadedPython, run_preloaded

ROOT = Path(__file__).parents[2]
DEMO = ["-m", "examples.demo"]


def demo(*arguments: str, seconds: int = 60) -> "subprocess.CompletedProcess[str]":
    """Play it, forked from a process that has imported much; `test_demo_install.py` starts Python."""
    return run_preloaded([*DEMO, *arguments], {**os.environ, "COLUMNS": "80"}, ROOT, seconds)


def test_all_is_as_told() -> None:
    told = demo()

    assert told.returncode == 0, told.stdout + told.stderr
    assert "✗" not in told.stdout
    for step in ("402 Payment Required", "202 Accepted", "payment_in_progress", "the seller received"):
        assert step in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert "\x1b" not in told.stdout  # no colours where nobody can see them


def test_without_its_middleware_the_seller_sells_nothing(tmp_path: Path) -> None:
    """Told on a terminal that does not know our signs."""
    source = EXAMPLE.read_text().replace("app.add_middleware(PaywallMiddleware)", "")
    (tmp_path / "app.py").write_text(source)
    told = subprocess.run(
        [sys.executable, *DEMO, "--seller", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert told.returncode == 1
    assert told.stdout.split("? the answer is 402")[1].split()[:4] == ["expected", "402", "came", "500"]
    assert "Not as expected: the answer is 402." in told.stdout
    assert "Sunny" not in told.stdout


def test_a_seller_that_does_not_start_is_reported(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('no shop today')")
    told = demo("--seller", str(tmp_path))

    assert told.returncode == 1
    assert "the seller did not start" in told.stdout
    assert "no shop today" in told.stdout


@contextmanager
def running(*arguments: str) -> Generator[PreloadedPython]:
    with PreloadedPython([*DEMO, *arguments], cwd=str(ROOT)) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("until", "sent", "code"),
    [
        ("until Ctrl-C", signal.SIGINT, 130),
        pytest.param("PAYMENT-REQUIRED, decoded", signal.SIGTERM, 143, marks=pytest.mark.full),
    ],
)
def test_whatever_ends_it_ends_what_it_started(until: str, sent: signal.Signals, code: int) -> None:
    with running("--serve") as process:
        urls = _urls_until(until, process)
        assert len(urls) == 2
        for url in urls:
            assert httpx.get(url).status_code < 500

        process.send_signal(sent)

        assert process.wait(10) == code
    for url in urls:
        with pytest.raises(httpx.TransportError):
            httpx.get(url)


def _urls_until(text: str, process: PreloadedPython) -> set[str]:
    urls: set[str] = set()
    for line in process.stdout:
        urls |= {word for word in line.split() if word.startswith("http://") and word.count("/") == 2}
        if text in line:
            break
    return urls
