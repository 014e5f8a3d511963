"""`faregate emulator`, run as a process."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from faregate.cli import main
from faregate.emulator import LIVE_KEY, TEST_KEY
from faregate.emulator.cli import DEFAULT_PORT
from faregate.system import PortTaken, open_listener
from tests.emulator.process import running, started
from tests.support.preloaded import PreloadedPython
from tests.support.waiting import eventually

from .seller import bearer


def test_json_is_one_line_with_url_and_test_key() -> None:
    with started("--json", "--port", "0") as (line, process):
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


def ended(process: "subprocess.Popen[str] | PreloadedPython") -> str:
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
        assert httpx.get(url, trust_env=False).status_code == 200
        process.send_signal(signal.SIGINT)
        text = ended(process)
    assert f"export FAREGATE_BASE_URL={url}\n" in text
    assert f"export FAREGATE_API_KEY={TEST_KEY}\n" in text
    assert LIVE_KEY not in text
    for words in ("0.01 USDC", "0.01 EURC", "free", "archived", "text_summary", "acr_"):
        assert words in text


def test_the_port_of_the_docs_unless_it_is_taken() -> None:
    """The first line says which. Tests of other processes may have the port already."""
    with ExitStack() as stack:
        with suppress(PortTaken):
            stack.enter_context(open_listener(port=DEFAULT_PORT))
        line, _ = stack.enter_context(running())
        url = line.split()[6]
        assert httpx.URL(url).port != DEFAULT_PORT
        assert line == f"The Merchant API is emulated at {url} (port 8402 is taken; stop it with Ctrl-C).\n"
        assert httpx.get(url, trust_env=False).status_code == 200


def test_the_port_of_the_docs_is_the_first_choice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a number that is free: 8402 may belong to a test of another process."""
    with open_listener() as free:
        port = free.getsockname()[1]
    monkeypatch.setattr("faregate.emulator.cli.DEFAULT_PORT", port)
    monkeypatch.setattr("faregate.emulator.server.run", lambda _, listener, **__: listener.close())
    assert main(["emulator"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"The Merchant API is emulated at http://127.0.0.1:{port} (stop it with Ctrl-C)."


def test_a_port_that_was_asked_for_is_the_one_or_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with open_listener() as taken:
        assert main(["emulator", "--port", str(taken.getsockname()[1])]) == 1
    assert "Stop what listens there, or give another port" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_console_is_opened_in_a_browser(host: str, tmp_path: Path) -> None:
    """The browser gets the console's page, and the server does not wait for its end."""
    shown = tmp_path / "shown"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport os, sys, time, urllib.request\n"
        "page = urllib.request.urlopen(sys.argv[1]).read().decode()\n"
        f"open('{shown}.part', 'w').write(f'{{sys.argv[1]}} {{page}}')\n"
        f"os.rename('{shown}.part', '{shown}')\ntime.sleep(60)\n"
    )
    browser.chmod(0o755)
    words = ["-m", "faregate", "emulator", "--open", "--port", "0", "--host", host, "--allow-remote"]
    with PreloadedPython(words, {**os.environ, "BROWSER": str(browser)}, own_group=True) as process:
        try:
            port = httpx.URL(process.stdout.readline().split()[6]).port
            assert eventually(shown.exists)
            url, page = shown.read_text().split(" ", 1)
            assert url == f"http://127.0.0.1:{port}/"
            assert "<title>" in page
        finally:
            process.kill()


def test_without_a_browser_the_address_is_said(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    environ = {**os.environ, "BROWSER": str(tmp_path / "none"), "PATH": str(tmp_path), "DISPLAY": ""}
    words = ["-m", "faregate", "emulator", "--open", "--port", "0"]
    with PreloadedPython(words, environ, errors=errors) as process:
        try:
            url = process.stdout.readline().split()[6]
            assert eventually(lambda: errors.read_text().endswith("\n"))
            assert errors.read_text() == f"No web browser was found. Open {url}/ in one.\n"
        finally:
            process.kill()


def test_no_console_is_opened_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulator", "--open", "--no-control"]) == 2
    assert capsys.readouterr().err.startswith("faregate: --open shows the console, which --no-control")


def test_a_tenant_of_ones_own(tmp_path: Path) -> None:
    tenant = tmp_path / "account.toml"
    tenant.write_text(
        'keys = [{key = "svc_test_mine"}]\n[[resources]]\nkey = "mine"\nname = "Mine"\n'
        "revisions = [{amount = 5}]\n"
    )
    with running("--json", "--account", str(tenant)) as (line, _):
        told = json.loads(line)
        assert told["test_key"] == "svc_test_mine"
        found = httpx.get(
            f"{told['url']}/merchant/v1/resources", headers=bearer("svc_test_mine"), trust_env=False
        )
    assert [item["name"] for item in found.json()["items"]] == ["Mine"]


def test_time_and_ids_are_printed_at_the_start() -> None:
    def first_execution(*arguments: str) -> tuple[dict[str, object], str]:
        with (
            running("--json", "--expose-execution-id", *arguments) as (line, _),
            httpx.Client(base_url=json.loads(line)["url"], trust_env=False) as client,
        ):
            clock: dict[str, object] = client.get("/_emulator/tenants/main/clock").json()
            return clock, free_access(client)["resource_execution_id"]

    still = ("--freeze", "2026-05-01T12:00:00+02:00")
    clock, first = first_execution("--seed", "4", *still)
    assert clock == {"now": "2026-05-01T10:00:00Z", "mode": "frozen", "rate": 0.0}
    assert first_execution("--seed", "4", *still)[1] == first
    clock, other = first_execution("--seed", "5", "--rate", "60")
    assert (clock["mode"], clock["rate"], other != first) == ("scaled", 60.0, True)


def own_addresses() -> list[str]:
    """The addresses under which other machines would reach this one, as far as it has any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return [probe.getsockname()[0]]
    return []


def test_no_header_makes_a_peer_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uvicorn would believe X-Forwarded-For from everybody."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    forged = {"Host": "127.0.0.1", "X-Forwarded-For": "127.0.0.1"}
    with (
        running("--json", "--allow-remote", "--host", "0.0.0.0") as (line, _),
        httpx.Client(trust_env=False) as client,
    ):
        port = httpx.URL(json.loads(line)["url"]).port
        for address in ("127.0.0.1", *own_addresses()):
            url = f"http://{address}:{port}"
            for path in ("/", "/_emulator/tenants"):
                assert client.get(url + path, headers=forged).status_code == 403
                plain = client.get(url + path, headers={"Host": "127.0.0.1"})
                assert plain.status_code == (200 if address == "127.0.0.1" else 403)
            assert (
                client.get(f"{url}/merchant/v1/payers", headers=bearer(TEST_KEY) | forged).status_code == 200
            )


def test_no_control_plane_if_it_is_not_wanted() -> None:
    with (
        running("--json", "--no-control", "--allow-remote", "--host", "0.0.0.0") as (line, _),
        httpx.Client(trust_env=False) as client,
    ):
        url = json.loads(line)["url"].replace("0.0.0.0", "127.0.0.1")
        for path in ("/", "/_emulator", "/_emulator/tenants"):
            assert client.get(url + path).json()["code"] == "invalid_request"
            assert client.post(url + path).status_code == 404
        assert client.get(f"{url}/merchant/v1/payers", headers=bearer(TEST_KEY)).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "not a loopback address"),
        (["--port", "99999"], "cannot listen on 127.0.0.1 port 99999"),
        (["--port", "-1"], "cannot listen on 127.0.0.1 port -1"),
        (["--account", "/nowhere/account.toml"], "cannot read the account"),
        (["--freeze", "noon"], "'noon' is not a date and time such as 2026"),
        (["--freeze", "2026-01-01"], "a moment needs a timezone"),
        (["--rate", "0"], "the rate of a clock is above 0"),
        (["--rate", "nan"], "the rate of a clock is above 0"),
    ],
)
def test_what_cannot_begin_says_so_in_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["emulator", *arguments]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("faregate: ")
    assert words in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["emulator", "--port", "x"],
        ["emulator", "--nothing"],
        ["emulator", "--rate", "fast"],
        ["emulator", "--rate", "2", "--freeze", "2026-01-01T00:00:00Z"],
    ],
)
def test_a_wrong_call_is_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err
