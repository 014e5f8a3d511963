"""`examples/dataset`: a link is paid for, and the file behind it is larger than any result may be."""

import os
from pathlib import Path

import httpx

from tests.e2e.example_servers import preloaded_server
from tests.e2e.payers import HttpxPayer
from tests.support.preloaded import run_preloaded

FOLDER = Path(__file__).parents[2] / "examples/dataset"
COMMAND = ["uvicorn", "--app-dir", str(FOLDER), "--port", "0", "app:app"]
SIZE = 20 * 2**20


def test_a_paid_link_downloads_more_than_a_result_may_have(environ: dict[str, str], tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    (tmp_path / "large.bin").write_bytes(content)
    settings = {**environ, "DATASETS": str(tmp_path), "LINK_KEY": "k" * 32}
    with preloaded_server("datasets", COMMAND, settings) as seller:
        unpaid = httpx.get(f"{seller}/datasets/large.bin")
        sold = HttpxPayer().call("GET", f"{seller}/datasets/large.bin").json()
        whole = httpx.get(sold["url"])
        rest = httpx.get(sold["url"], headers={"Range": f"bytes={SIZE - 5}-"})
        # Not the last character: it has bits that decode to nothing.
        forged = httpx.get(f"{sold['url'][:-2]}{'A' if sold['url'][-2] != 'A' else 'B'}{sold['url'][-1]}")
        missing = HttpxPayer().call("GET", f"{seller}/datasets/none.bin")
        escaped = httpx.get(f"{seller}/datasets/..%2fapp.py")

    assert unpaid.status_code == 402
    assert (sold["bytes"], whole.content == content) == (SIZE, True)
    assert (rest.status_code, rest.content) == (206, content[-5:])
    assert forged.status_code == 403
    assert missing.status_code == 404
    assert "PAYMENT-RESPONSE" not in missing.headers
    assert escaped.status_code in (402, 404)


def test_a_link_needs_a_key_that_nobody_guesses(environ: dict[str, str]) -> None:
    """The embedded emulator's seller makes one; any other is asked for it."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import app"
    settings = {**os.environ, **environ, "DATASETS": ".", "LINK_KEY": "short"}
    done = run_preloaded(["-c", code, str(FOLDER)], settings, FOLDER)
    assert done.returncode == 1
    assert done.stderr.startswith("Set LINK_KEY to at least 32 random characters")
