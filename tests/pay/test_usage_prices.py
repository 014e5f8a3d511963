"""`faregate pay` pays a price that follows the use: it signs the maximum, and shows what was taken."""

import json
from collections.abc import Generator
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI

from faregate import Payment, Paywall, Usage
from faregate.cli import main
from faregate.fastapi import PaywallMiddleware, paid
from tests.servers.http import serving

PRICE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})


@pytest.fixture(scope="module")
def shop() -> Generator[str]:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=Paywall(base_url="emulator:", environ={}))

    @app.get("/chat")
    async def chat(payment: Annotated[Payment, Depends(paid("chat", price=PRICE))]) -> dict[str, str]:
        payment.report({"output-tokens": 1230})
        return {"answer": "42"}

    with serving(app) as url:
        yield f"{url}/chat"


def test_what_was_used_is_paid_and_shown(shop: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["pay", shop]) == 0

    output, errors = capfdbinary.readouterr()
    assert json.loads(output) == {"answer": "42"}
    text = errors.decode()
    assert "    up to 0.50 USDC on eip155:84532 to 0x" in text
    assert "* signed: up to 0.50 USDC on eip155:84532, by good" in text
    assert "* paid 0.0123 USDC: 0x" in text


def test_json_has_the_maximum_and_what_was_taken(
    shop: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["pay", "--json", shop]) == 0

    steps = [json.loads(line) for line in capfdbinary.readouterr().err.splitlines() if line[:1] == b"{"]
    found = {one["step"]: one for one in steps}
    [price] = found["payment_required"]["accepts"]
    assert (price["amount"], price["atomic"], price["scheme"]) == ("up to 0.50 USDC", "500000", "upto")
    assert found["signed"]["valid_until"] is not None
    assert (found["paid"]["amount"], found["paid"]["used"]) == ("12300", "0.0123 USDC")


def test_a_maximum_above_the_limit_is_not_signed(
    shop: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["pay", "--max", "0.49", shop]) != 0
    assert b"up to 0.50 USDC is above the limit; raise it with --max" in capfdbinary.readouterr().err
