"""The recipes that charge by use, bought as they stand on their page: tokens of a model, rows of a tool."""

import json
from collections.abc import Generator
from typing import Any

import anyio
import pytest
from mcp.client import Client
from starlette.testclient import TestClient

from faregate.emulator import Wallet
from tests.adapters.mcp_shop import PAYMENT, receipt_of, said
from tests.support.headers import decode_header, encode_header
from tests.support.snippets import SNIPPETS, run

ASK = "/v1/chat/completions"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "emulator:")


def run_recipe(text: str) -> Any:
    """Run the block of the page of recipes that has this text."""
    [snippet] = [one for one in SNIPPETS if one.place.startswith("docs/recipes.md") and text in one.code]
    return run(snippet.code)


@pytest.fixture
def model() -> Generator[TestClient]:
    with TestClient(run_recipe('"output-tokens"').app, raise_server_exceptions=False) as client:
        yield client


def buy(model: TestClient, **question: Any) -> Any:
    asked = model.post(ASK, json=question)
    assert asked.status_code == 402
    proof = Wallet().pay(asked.headers["payment-required"])
    return model.post(ASK, json=question, headers={"PAYMENT-SIGNATURE": proof})


def ask(words: int, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": " ".join(["word"] * words)}], **more}


def get_amounts(answer: Any) -> tuple[int, int]:
    """Return the tokens of the answer, and what was paid."""
    tokens = answer.json()["usage"]["completion_tokens"]
    return tokens, int(decode_header(answer.headers["payment-response"])["amount"])


@pytest.mark.parametrize(
    ("question", "tokens", "paid"),
    [
        (ask(4), 4, 50),  # 4 * 2.5 + 4 * 10
        (ask(5), 5, 63),  # 62.5, rounded up
        (ask(100, max_tokens=3), 3, 280),
        # The question costs what is above the maximum, and the answer ends at 5,000 tokens.
        (ask(9_000, max_tokens=100_000), 5_000, 50_000),
    ],
)
def test_a_model_charges_for_its_tokens(
    model: TestClient, question: dict[str, Any], tokens: int, paid: int
) -> None:
    assert get_amounts(buy(model, **question)) == (tokens, paid)


def test_a_model_that_fails_or_does_not_count_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = run_recipe('"output-tokens"')

    async def fail(*_: Any) -> Any:
        raise RuntimeError("the model is away")

    async def count_nothing(*_: Any) -> Any:
        return {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": None}}

    with TestClient(recipe.app, raise_server_exceptions=False) as client:
        for broken in (fail, count_nothing):
            monkeypatch.setattr(recipe, "ask_model", broken)
            answer = buy(client, **ask(4))
            assert (answer.status_code, "payment-response" in answer.headers) == (500, False)


@pytest.mark.parametrize(("least_rain", "rows", "paid"), [(1000, 2, 2000), (0, 3, 3000), (9999, 0, 1)])
def test_a_tool_charges_for_its_rows(least_rain: int, rows: int, paid: int) -> None:
    server = run_recipe("least_rain").server

    async def call() -> Any:
        async with Client(server) as client:
            asked = said(await client.call_tool("search", {"least_rain": least_rain}))
            assert asked["accepts"][0]["scheme"] == "upto"
            proof = decode_header(Wallet().pay(encode_header(asked)))
            meta: Any = {PAYMENT: proof}
            return await client.call_tool("search", {"least_rain": least_rain}, meta=meta)

    result = anyio.run(call)
    assert not result.is_error, result
    assert len(result.structured_content["result"]) == rows
    receipt = receipt_of(result)
    assert (receipt["success"], receipt["amount"]) == (True, str(paid)), json.dumps(receipt)
