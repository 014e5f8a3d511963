"""The demo fails with a seller who lies: each lie ends it at its own claim."""

import asyncio
import io
from pathlib import Path

import pytest
from examples.demo.__main__ import play
from examples.demo.reporter import Reporter, Untrue, money
from examples.demo.servers import Servers
from rich.console import Console

from faregate.emulator import TEST_KEY
from tests.e2e.example_seller import EXAMPLE, SERVERS, market
from tests.e2e.payers import Refused

LIES = {
    "a free lunch": (
        '"/report", dependencies=[Depends(paid("daily_report"))]',
        '"/report"',
        "the answer is 402",
    ),
    "sold at once": (
        '"/slow", dependencies=[Depends(paid("slow_settlement"))]',
        '"/slow", dependencies=[Depends(paid("daily_report"))]',
        "not delivered yet",
    ),
    "never settled": ("slow_settlement", "failing_settlement", "delivered"),
    "work done twice": ("WORKED[route] =", "WORKED[route] = 1 +", "the work ran once"),
    "nothing counted": ('"worked": WORKED', '"worked": None', "the seller counts its work"),
    "a failure that is sold": (
        'raise HTTPException(503, "the printer is out of paper")',
        "return {}",
        "the payer sees the handler's own error",
    ),
}


@pytest.mark.parametrize("loop", SERVERS)
def test_it_is_true_of_the_example(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = _told(EXAMPLE, monkeypatch, loop)

    assert "none is open" in told


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_it(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth, untruth, claim = LIES[lie]

    with pytest.raises(Untrue, match=claim):
        _told(_lying(tmp_path, truth, untruth), monkeypatch)


def test_a_price_no_stock_client_pays_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = _lying(
        tmp_path,
        '"/report", dependencies=[Depends(paid("daily_report"))]',
        '"/report", dependencies=[Depends(paid("euro_report"))]',
    )

    with pytest.raises(Refused):
        _told(app, monkeypatch)


def test_what_is_expected_and_what_came_is_printed() -> None:
    page = io.StringIO()

    with pytest.raises(Untrue):
        Reporter(Console(file=page, width=60)).claim("two and two", 2 + 2, 5)

    assert page.getvalue().split() == ["✗", "two", "and", "two", "expected", "5", "came", "4"]


@pytest.mark.parametrize(
    ("atomic", "text"),
    [(0, "0.00 USDC"), (1, "0.000001 USDC"), (10_000, "0.01 USDC"), (2_500_000, "2.50 USDC")],
)
def test_money_is_exact(atomic: int, text: str) -> None:
    assert money(atomic) == text


def _told(app: Path, environ: pytest.MonkeyPatch, loop: str = "asyncio") -> str:
    page = io.StringIO()
    with market(loop, environ, app) as shop:
        where = Servers(shop.service, shop.seller, TEST_KEY)
        asyncio.run(play(Reporter(Console(file=page, width=80)), where))
    return page.getvalue()


def _lying(directory: Path, truth: str, untruth: str) -> Path:
    source = EXAMPLE.read_text()
    assert truth in source
    app = directory / "app.py"
    app.write_text(source.replace(truth, untruth))
    return app
