"""`examples/mcp` as its README starts it, paid with the official clients of MCP and x402."""

import json
import os
import subprocess
from collections.abc import Generator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from eth_account import Account
from examples.chain.typescript_payer import NoTypeScript, install_client
from examples.demo.servers import server
from mcp.client import Client
from x402 import x402Client
from x402.mcp import x402MCPSession
from x402.mechanisms.evm.exact import ExactEvmScheme

from faregate.cli import main
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.e2e.test_example_starlette import ROOT, command_of
from tests.servers.shared import need
from tests.support.faulty_service import FaultyService
from tests.support.preloaded import run_preloaded

EXAMPLE = ROOT / "examples" / "mcp"


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    return Emulator()


@pytest.fixture(scope="module")
def shop(emulator: Emulator) -> Generator[str]:
    with serve(emulator) as service:
        environ = {"FAREGATE_BASE_URL": service, "FAREGATE_API_KEY": TEST_KEY, "FAREGATE_SETTLE_WAIT": "0"}
        with server("the example", command_of("mcp"), environ) as address:
            yield f"{address}/mcp"


def read_result(ran: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_the_readmes_payer_pays(shop: str) -> None:
    words = [str(EXAMPLE / "pay.py"), shop, "forecast", '{"city": "Oslo"}']
    told = read_result(run_preloaded(words, dict(os.environ), EXAMPLE))
    assert (told["error"], told["text"]) == (False, ["Sunny, with a chance of receipts."])
    assert told["receipt"]["success"]


def pay(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> tuple[int, bytes, bytes]:
    code = main(["pay", *words])
    output, errors = capsysbinary.readouterr()
    return code, output, errors


def test_the_command_buys_a_tool(shop: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    code, output, errors = pay(capsysbinary, f"{shop}#forecast", "-d", '{"city": "Oslo"}')

    assert code == 0, errors
    assert json.loads(output) == {"result": "Sunny, with a chance of receipts."}
    assert b"0.05 USDC on eip155:84532" in errors
    assert b"* paid: 0x" in errors
    assert b"Traceback" not in errors


def test_the_command_sends_the_payment_of_a_tool_again(
    shop: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = (f"{shop}#forecast", "-d", '{"city": "Bergen"}', "--payer", "reads")
    code, output, errors = pay(capsysbinary, *words)

    assert code == 0, errors
    assert json.loads(output) == {"result": "Rain, as agreed."}
    assert b"sending the same payment again" in errors
    assert errors.count(b"* signed") == 1


def test_the_command_pays_nothing_for_a_free_tool_or_a_tool_that_fails(
    shop: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, output, errors = pay(capsysbinary, f"{shop}#list_cities")
    assert (code, json.loads(output)) == (0, {"result": ["Oslo", "Bergen"]})
    assert b"it was free" in errors

    code, output, errors = pay(capsysbinary, f"{shop}#forecast", "-d", '{"city": "Rome"}')
    assert code == 6
    assert b"There is no forecast" in output
    assert b"* paid" not in errors


def test_the_command_names_a_payment_that_was_refused(
    shop: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = (f"{shop}#forecast", "-d", '{"city": "Oslo"}', "--payer")
    code, _, errors = pay(capsysbinary, *words, "poor")
    assert (code, b"has not enough USDC" in errors) == (4, True)
    code, _, errors = pay(capsysbinary, *words, "rejected")
    assert (code, b"nothing was charged" in errors) == (4, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["#forecast", "-d", "[1]"], b"JSON object"),
        (["#"], b"must name a tool"),
        (["#forecast", "-X", "PUT"], b"--method is for HTTP"),
    ],
)
def test_wrong_calls_of_a_tool_are_named(
    words: list[str], message: bytes, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, _, errors = pay(capsysbinary, f"http://127.0.0.1:9/mcp{words[0]}", *words[1:])
    assert (code, message in errors) == (2, True)


def test_a_tool_that_cannot_be_reached_is_named(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    code, _, errors = pay(capsysbinary, "http://127.0.0.1:9/mcp#forecast")
    assert (code, b"no result from 127.0.0.1:9" in errors) == (1, True)


def test_the_client_for_typescript_pays_and_holds_answers_against_the_output_schema(shop: str) -> None:
    folder = EXAMPLE / "typescript"
    try:
        folder = install_client(folder)
    except NoTypeScript as error:
        need("npm", str(error))
    words = ["node", "pay.mjs", shop, "summarize", '{"text": "one two three four five six"}']
    told = read_result(subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120))
    assert (told["error"], json.loads(told["text"][0])["words"]) == (False, 6)
    assert told["receipt"]["success"]


class OldSession:
    """A session of the SDK's 2.x as one of 1.x, for which x402 2.25 has written its client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call_tool(
        self, name: str, arguments: Any, read_timeout_seconds: timedelta, meta: Any = None
    ) -> Any:
        seconds = read_timeout_seconds.total_seconds()
        result = await self._client.call_tool(name, arguments, seconds, meta=meta)
        return SimpleNamespace(
            content=result.content,
            isError=result.is_error,
            structuredContent=result.structured_content,
            meta=result.meta,
        )


def test_the_official_session_of_x402_pays_and_is_not_charged_for_a_failure(
    shop: str, emulator: Emulator
) -> None:
    async def buy(city: str) -> Any:
        payer = x402Client().register("eip155:*", ExactEvmScheme(Account.create()))
        async with Client(shop) as client:
            return await x402MCPSession(OldSession(client), payer).call_tool("forecast", {"city": city})

    bought, failed = anyio.run(buy, "Bergen"), anyio.run(buy, "Rome")
    assert (bought.is_error, bought.payment_made, bought.payment_response.success) == (False, True, True)
    assert bought.content[0].text == "Rain, as agreed."
    assert (failed.is_error, failed.payment_made, failed.payment_response) == (True, True, None)
    assert "There is no forecast for 'Rome'" in failed.content[0].text
    newest = FaultyService(emulator).list_transactions(newest=2)
    assert [one["status"] for one in newest] == ["failed", "succeeded"]
