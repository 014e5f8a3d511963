"""`faregate emulator`, run as a process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from faregate.cli import main
from faregate.emulator import LIVE_KEY, TEST_KEY

from .shop import bearer


@contextmanager
def running(*arguments: str) -> Generator[tuple[str, "subprocess.Popen[str]"]]:
    """The command while it runs, and the first line it prints; killed if it outlives the block."""
    command = [sys.executable, "-W", "error", "-m", "faregate.cli", "emulator", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline(), process
        finally:
            process.kill()


def test_json_is_one_line_with_url_and_test_key() -> None:
    with running("--json", "--port", "0") as (line, process):
        told = json.loads(line)
        assert set(told) == {"url", "test_key"}
        assert told["test_key"] == TEST_KEY
        assert told["url"].startswith("http://127.0.0.1:")
        with httpx.Client(base_url=told["url"], trust_env=False) as client:
            assert client.get("/merchant/v1/payers", headers=bearer(TEST_KEY)).status_code == 200
            live = client.get("/merchant/v1/payers", headers=bearer(LIVE_KEY))
            assert (live.status_code, live.json()["code"]) == (401, "unauthenticated")
            free = free_access(client)
            assert free == {"transaction_id": None}
        process.send_signal(signal.SIGINT)
        assert ended(process) == ""


def test_live_keys_and_execution_ids_when_asked_for() -> None:
    with running("--json", "--allow-live", "--expose-execution-id") as (line, _):
        told = json.loads(line)
        assert told["live_key"] == LIVE_KEY
        with httpx.Client(base_url=told["url"], trust_env=False) as client:
            assert client.get("/merchant/v1/payers", headers=bearer(LIVE_KEY)).status_code == 200
            assert free_access(client)["resource_execution_id"].startswith("rex_")


def ended(process: "subprocess.Popen[str]") -> str:
    """What else it printed until its orderly end."""
    assert process.stdout is not None
    rest = process.stdout.read()
    assert process.wait(10) == 0
    return rest


def free_access(client: httpx.Client) -> dict[str, str]:
    schemas = client.get("/merchant/v1/contracts", headers=bearer(TEST_KEY)).json()["components"]["schemas"]
    (revision,) = [name for name, one in schemas.items() if one["x-svc-resource-name"] == "Free notes"]
    body = {
        "revision_id": revision,
        "resource": {"url": "https://seller.example/a", "mime_type": "text/plain"},
        "settlement_asset": "USDC",
    }
    found: dict[str, str] = client.post("/merchant/v1/access", json=body, headers=bearer(TEST_KEY)).json()
    return found


def test_text_names_address_keys_environment_and_resources() -> None:
    with running() as (line, process):
        url = line.split()[6]
        assert httpx.get(url, trust_env=False).status_code == 404
        process.send_signal(signal.SIGINT)
        text = ended(process)
    assert f"export FAREGATE_BASE_URL={url}\n" in text
    assert f"export FAREGATE_API_KEY={TEST_KEY}\n" in text
    assert LIVE_KEY not in text
    for words in ("0.01 USDC", "0.01 EURC", "free", "archived", "text_summary", "acr_"):
        assert words in text


def test_a_world_of_ones_own(tmp_path: Path) -> None:
    world = tmp_path / "world.toml"
    world.write_text(
        'keys = [{key = "svc_test_mine"}]\n[[resources]]\nkey = "mine"\nname = "Mine"\n'
        "revisions = [{amount = 5}]\n"
    )
    with running("--json", "--world", str(world)) as (line, _):
        told = json.loads(line)
        assert told["test_key"] == "svc_test_mine"
        found = httpx.get(
            f"{told['url']}/merchant/v1/resources", headers=bearer("svc_test_mine"), trust_env=False
        )
    assert [item["name"] for item in found.json()["items"]] == ["Mine"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "only this machine"),
        (["--port", "99999"], "cannot listen on 127.0.0.1 port 99999"),
        (["--port", "-1"], "cannot listen on 127.0.0.1 port -1"),
        (["--world", "/nowhere/world.toml"], "cannot read the world"),
    ],
)
def test_what_cannot_begin_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["emulator", *arguments]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("faregate: ")
    assert words in told.err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["emulator", "--port", "x"], ["emulator", "--nothing"]])
def test_a_wrong_call_is_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err
