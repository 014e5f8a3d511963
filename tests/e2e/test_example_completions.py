"""`examples/completions`: the OpenAI SDK asks, the official x402 client pays, the tokens are reported."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
from examples.demo.servers import server

from faregate.emulator import Emulator
from tests.e2e.example_servers import preloaded_server
from tests.e2e.payers import HttpxPayer

FOLDER = Path(__file__).parents[2] / "examples/completions"
COMMAND = ["uvicorn", "--app-dir", str(FOLDER), "--port", "0", "app:app"]
QUESTION = {"messages": [{"role": "user", "content": "What does this cost?"}]}


def list_outcomes(emulator: Emulator) -> list[tuple[int | None, str, dict[str, str]]]:
    """Status, outcome and values of each completion."""
    bodies = [(call.status, json.loads(call.request.body or b"")) for call in emulator.calls("complete")]
    return [(status, body["outcome"], body.get("values", {})) for status, body in bodies]


def test_the_sdk_is_answered_and_the_tokens_are_reported(environ: dict[str, str], emulator: Emulator) -> None:
    with server("completions", COMMAND, environ) as seller:
        command = [sys.executable, str(FOLDER / "client.py"), "What does this cost?", f"{seller}/v1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.stdout.startswith("What does this cost?\nCompletionUsage("), done.stderr
    tokens = {"input-tokens": "4", "output-tokens": "4"}
    assert list_outcomes(emulator) == [(200, "succeeded", tokens)]


def test_an_upstream_that_fails_and_a_stream_cost_nothing(
    environ: dict[str, str], emulator: Emulator
) -> None:
    nobody = {**environ, "UPSTREAM_URL": "http://127.0.0.1:9/v1"}
    with preloaded_server("completions", COMMAND, nobody) as seller:
        url = f"{seller}/v1/chat/completions"
        failed = HttpxPayer().call("POST", url, QUESTION)
        streamed = HttpxPayer().call("POST", url, {**QUESTION, "stream": True})
        invalid = httpx.post(url, json={"messages": "none"})

    assert (failed.status_code, failed.json()["error"]["message"]) == (502, "the model did not answer")
    assert streamed.status_code == 400
    assert invalid.status_code in (402, 422)
    assert [outcome for _, outcome, _ in list_outcomes(emulator)] == ["failed", "failed"]


def test_an_upstream_server_is_asked(environ: dict[str, str], emulator: Emulator) -> None:
    """It gets the fields that the seller does not know, and counts the tokens."""
    with preloaded_server(
        "upstream", ["uvicorn", "--app-dir", str(Path(__file__).parent), "--port", "0", "upstream:app"], {}
    ) as model:
        selling = {**environ, "UPSTREAM_URL": f"{model}/v1"}
        with preloaded_server("completions", COMMAND, selling) as seller:
            answer = HttpxPayer().call("POST", f"{seller}/v1/chat/completions", {**QUESTION, "seed": 7})

    assert answer.json()["choices"][0]["message"]["content"] == "seed 7"
    tokens = {"input-tokens": "11", "output-tokens": "2"}
    assert list_outcomes(emulator) == [(200, "succeeded", tokens)]
