"""`examples/starlette/app.py` as its README starts it, paid with the official client."""

import os
import re
import shlex
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from examples.demo.servers import DidNotStart, server

from faregate.emulator import Emulator
from tests.e2e.example_servers import preloaded_server
from tests.e2e.payers import PAYERS, HttpxPayer
from tests.support.preloaded import run_preloaded

ROOT = Path(__file__).parents[2]
EXAMPLES = ("starlette", "fastapi")


def command_of(example: str) -> list[str]:
    """The README's second command, without its settings; any free port."""
    readme = (ROOT / "examples" / example / "README.md").read_text()
    [line] = re.findall(r"^FAREGATE_BASE_URL=emulator: \.venv/bin/(uvicorn .*)$", readme, re.MULTILINE)
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in shlex.split(line)]
    return [words[0], "--port", "0", *words[1:]]


@pytest.fixture(name="seller")
def _seller(environ: dict[str, str]) -> Generator[str]:
    with preloaded_server("the example", command_of("starlette"), environ) as seller:
        yield seller


@pytest.mark.parametrize("library", PAYERS)
def test_each_way_to_sell_is_paid_for(seller: str, emulator: Emulator, library: str) -> None:
    payer = PAYERS[library]()
    report = payer.call("GET", f"{seller}/weather/oslo")
    summary = payer.call("POST", f"{seller}/summary", "one two three four five six")
    story = payer.call("GET", f"{seller}/library/story.txt")
    assert report.json() == {"report": "oslo: sunny, with a chance of receipts."}
    assert summary.json() == {"summary": '"one two three four five'}
    assert story.content == b"Once upon a time a server answered 402.\n"
    assert all("PAYMENT-RESPONSE" in answer.headers for answer in (report, summary, story))
    completed = [call.status for call in emulator.calls() if call.path.endswith("/complete")]
    assert completed == [200, 200, 200]


def test_what_is_free_is_free_and_what_is_not_there_is_not_charged(seller: str) -> None:
    assert httpx.get(f"{seller}/health").json() == {"status": "ok"}
    assert httpx.get(f"{seller}/summary").text.startswith("POST a text")
    answer = PAYERS["requests"]().call("GET", f"{seller}/library/nothing.txt")
    assert (answer.status_code, "PAYMENT-RESPONSE" in answer.headers) == (404, False)
    assert httpx.get(f"{seller}/weather/").status_code == 403


def test_a_browser_is_let_in(seller: str) -> None:
    asks = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "payment-signature",
    }
    assert httpx.options(f"{seller}/weather/oslo", headers=asks).status_code == 200
    unpaid = httpx.get(f"{seller}/weather/oslo", headers={"Origin": "https://shop.example"})
    assert (unpaid.status_code, unpaid.headers["access-control-allow-origin"]) == (402, "*")
    assert "PAYMENT-REQUIRED" in unpaid.headers["access-control-expose-headers"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_readme_is_enough(example: str) -> None:
    """With the service inside the process, as it is started there."""
    path = {"starlette": "/weather/oslo", "fastapi": "/report"}[example]
    with server("the example", command_of(example), {"FAREGATE_BASE_URL": "emulator:"}) as seller:
        answer = HttpxPayer().call("GET", seller + path)
    assert (answer.status_code, "PAYMENT-RESPONSE" in answer.headers) == (200, True)
    with pytest.raises(httpx.ConnectError):
        httpx.get(seller + path)


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_routes_can_be_listed(example: str) -> None:
    words = ["routes", "--text", "--app-dir", str(ROOT / "examples" / example), "app:app"]
    done = run_preloaded(["-m", "faregate", *words], dict(os.environ), ROOT)
    assert (done.returncode, "paid" in done.stdout) == (0, True), done.stderr


def test_a_missing_setting_is_named_at_the_start() -> None:
    with (
        pytest.raises(DidNotStart, match="Set FAREGATE_BASE_URL"),
        preloaded_server("the example", command_of("starlette"), {}),
    ):
        pass
