"""Take the screenshots of the console for the documentation, always the same, in a browser without a window.

scripts/screenshots [DIRECTORY]
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import httpx
from playwright.sync_api import Browser, Page

from faregate.emulator import TEST_KEY, Emulator, ManualClock, SettlementRule
from faregate.emulator.faults import Fault
from faregate.emulator.server import serve
from faregate.rules.ids import SeededIds
from tests.console.browser import chromium
from tests.console.purchases import Purchases

DOCS: Final = Path(__file__).parents[2] / "docs"
BEGIN: Final = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
PAYERS: Final = ("good", "slow", "good", "reads", "reconciles", "good", "rejected", "good", "expires", "good")
RESOURCES: Final = (
    "text_summary",
    "daily_report",
    "token_meter",
    "euro_report",
    "daily_report",
    "text_summary",
)


def make_purchases(purchases: Purchases, clock: ManualClock, count: int = 44) -> None:
    """A minute of trade: all kinds of payers, some work that fails, some faults."""
    purchases.emulator.faults.add(Fault(kind="status", status=503, operation="complete", times=2))
    purchases.emulator.faults.add(Fault(kind="stale-read", operation="transaction", probability=0.1, seed=7))
    for number in range(count):
        payer, resource = PAYERS[number % len(PAYERS)], RESOURCES[number * 5 % len(RESOURCES)]
        _buy(purchases, clock, number, payer, resource)
        clock.advance(0.3 + number * 37 % 11 / 8)
    purchases.emulator.settle_after("daily_report", SettlementRule(after_seconds=5, via="reconciling"))
    purchases.authorize("poor")
    clock.advance(0.2)
    purchases.authorize("good", "daily_report")
    clock.advance(0.8)


def _buy(purchases: Purchases, clock: ManualClock, number: int, payer: str, resource: str) -> None:
    bought = purchases.authorize(payer, resource, before_paying=lambda: clock.advance(0.04 + number % 7 / 90))
    clock.advance(0.12 + number * 13 % 10 / 12)
    if number % 12 == 7:
        purchases.fail(bought, "model_overloaded")
        return
    values = {"input_tokens": str(300 + number * 17)} if resource == "token_meter" else {}
    while purchases.complete(bought, values=values).status_code == 503:
        clock.advance(0.5)
    if payer in ("reads", "reconciles") and number < 30:
        for _ in range(2):
            clock.advance(0.6)
            purchases.http.get(f"/transactions/{bought.id}")


def take(browser: Browser, url: str, to: Path) -> None:
    """Light and dark at desktop width, and a phone."""
    _take(browser, url, to / "console-light.png", "light", (1280, 840), _open_pending)
    _take(browser, url, to / "console-dark.png", "dark", (1280, 840), lambda page: None)
    _take(browser, url, to / "console-phone.png", "light", (390, 844), lambda page: None)


def _take(
    browser: Browser,
    url: str,
    to: Path,
    scheme: Literal["light", "dark"],
    size: tuple[int, int],
    prepare: Callable[[Page], None],
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(url)
    page.locator(".row").first.wait_for()
    prepare(page)
    page.screenshot(path=to)
    page.close()


def _open_pending(page: Page) -> None:
    page.locator(".row", has_text="settling").first.click()
    page.locator("#detail summary", has_text="PAYMENT-SIGNATURE").click()
    page.mouse.move(0, 0)


def main() -> None:
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    clock = ManualClock(BEGIN)
    emulator = Emulator(clock=clock, ids=SeededIds("console"))
    with serve(emulator) as url:
        headers = {"Authorization": f"Bearer {TEST_KEY}"}
        with httpx.Client(base_url=f"{url}/merchant/v1", headers=headers, trust_env=False) as http:
            make_purchases(Purchases(http, emulator), clock)
        with chromium() as browser:
            take(browser, url, to)


if __name__ == "__main__":
    main()
