"""Several workers with a memory journal each: warned of where servers say it, and nowhere else."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from faregate import Paywall
from faregate.server_config import find_server_workers
from tests.servers.store_server import free_port
from tests.support.processes import environment

SHOP = """
import sys
from faregate import Paywall
from faregate.server_config import find_server_workers

Paywall(base_url="emulator:")
print(f"workers: {find_server_workers()}", file=sys.stderr, flush=True)


def wsgi(environ, start_response):
    start_response("200 OK", [])
    return []


async def asgi(scope, receive, send):
    pass
"""
PROGRAM = """
import sys, uvicorn

if __name__ == "__main__":
    uvicorn.run("shop:asgi", workers=2, lifespan="off", port=int(sys.argv[1]))
"""
WARNING = "each has a memory journal of its own"


def start(folder: Path, *words: str, **environ: str) -> str:
    """Start a server, and return what it says until its first worker has the application."""
    (folder / "shop.py").write_text(SHOP)
    (folder / "program.py").write_text(PROGRAM)
    server = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment(**environ), stderr=subprocess.PIPE, text=True
    )
    said = ""
    try:
        assert server.stderr is not None
        for line in server.stderr:
            said += line
            if line.startswith("workers: "):
                break
        return said
    finally:
        server.terminate()
        server.communicate(timeout=60)


GUNICORN = ("-m", "gunicorn", "--bind", "127.0.0.1:0")
UVICORN = ("-m", "uvicorn", "shop:asgi", "--lifespan", "off", "--port")


@pytest.mark.parametrize(
    ("words", "environ", "workers"),
    [
        ((*GUNICORN, "-c", "conf.py", "shop:wsgi"), {}, 3),
        (("-m", "uvicorn", "shop:asgi", "--lifespan", "off", "--workers", "2", "--port"), {}, 2),
        pytest.param((*GUNICORN, "--preload", "-w", "2", "shop:wsgi"), {}, 2, marks=pytest.mark.full),
        pytest.param(
            (*GUNICORN, "-k", "gthread", "shop:wsgi"), {"WEB_CONCURRENCY": "2"}, 2, marks=pytest.mark.full
        ),
        pytest.param(UVICORN, {"WEB_CONCURRENCY": "2"}, 2, marks=pytest.mark.full),
        pytest.param(("program.py",), {}, 2, marks=pytest.mark.full),
    ],
)
def test_several_workers_with_a_journal_each_are_warned_of(
    words: tuple[str, ...], environ: dict[str, str], workers: int, tmp_path: Path
) -> None:
    (tmp_path / "conf.py").write_text("workers = 3\n")
    port = () if "gunicorn" in words else (str(free_port()),)
    said = start(tmp_path, *words, *port, **environ)
    assert f"This server runs {workers} workers, and {WARNING}" in said
    assert "run `faregate emulator`" in said


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("-c", "import shop"), {"WEB_CONCURRENCY": "2"}),
        pytest.param((*GUNICORN, "shop:wsgi"), {}, marks=pytest.mark.full),
        pytest.param(UVICORN, {}, marks=pytest.mark.full),
        pytest.param(
            (*UVICORN[:2], "--reload", *UVICORN[2:]), {"WEB_CONCURRENCY": "2"}, marks=pytest.mark.full
        ),
    ],
)
def test_one_process_is_not(words: tuple[str, ...], environ: dict[str, str], tmp_path: Path) -> None:
    port = () if "gunicorn" in words else (str(free_port()),)
    said = start(tmp_path, *words, *port, **environ)
    assert "workers: " in said
    assert WARNING not in said


def test_a_shared_journal_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(numproc=4))
    assert find_server_workers() == 4
    Paywall(environ={"FAREGATE_BASE_URL": "emulator:"}, journal=f"sqlite:///{tmp_path}/journal.db")
    assert WARNING not in caplog.text
    Paywall(environ={"FAREGATE_BASE_URL": "emulator:"})
    assert f"This server runs 4 workers, and {WARNING}" in caplog.text
