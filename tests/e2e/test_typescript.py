"""The official TypeScript client pays the example. Left out where there is no npm, or no registry."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.example_seller import Market

SOURCES = Path(__file__).parent / "typescript"
NODE, NPM = shutil.which("node"), shutil.which("npm")

pytestmark = pytest.mark.skipif(NODE is None or NPM is None, reason="there is no node or no npm here")


@pytest.fixture(scope="module")
def installed(pytestconfig: pytest.Config) -> Path:
    """The client with what it needs, in a folder that is kept until the client changes."""
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.is_file())
    folder = pytestconfig.cache.mkdir("typescript") / hashlib.sha256(sources).hexdigest()
    complete = folder / "complete"
    if complete.exists():
        return folder
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    install = [str(NPM), "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("npm install took more than two minutes")
    if done.returncode != 0:
        pytest.skip(f"npm could not install the client: {done.stderr.strip()[:200]}")
    complete.touch()
    return folder


def pay(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [str(NODE), "pay.mjs", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_get_is_paid(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/report")

    assert told["status"] == 200, told
    [transaction] = seller.transactions()
    assert (transaction.status, transaction.transaction_hash) == ("succeeded", told["paid"]["transaction"])
    assert transaction.payer == told["address"]
    assert seller.runs("report") == 1
    [(challenge, echoed)] = seller.echoed()
    assert (echoed, len(echoed)) == (challenge, 64)


@pytest.mark.parametrize("seller", ["trio"], indirect=True)
def test_a_post_is_paid_and_its_body_arrives(installed: Path, seller: Market) -> None:
    told = pay(installed, "POST", f"{seller.seller}/summary", '{"text": "one two three four five six"}')

    assert (told["status"], told["body"]) == (200, {"summary": "one two three four five"})
    assert told["paid"]["success"] is True


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_failed_work_is_not_charged(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/broken")

    assert (told["status"], told["paid"]) == (503, None)
    assert [one.status for one in seller.transactions()] == ["failed"]


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_eurc_is_refused_by_default(installed: Path, seller: Market) -> None:
    told = pay(installed, "GET", f"{seller.seller}/euro")

    assert "refused" in told, told
    assert seller.transactions() == []
