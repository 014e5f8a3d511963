"""The console shows the maximum of a price that follows the use, and what was taken of it."""

from playwright.sync_api import Page, expect

from faregate import Usage
from faregate.emulator import Emulator, SettlementRule
from faregate.x402.declared_prices import DeclaredPrice

from .purchases import Purchases

PRICE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})


def test_a_maximum_and_what_was_taken(page: Page, purchases: Purchases, emulator: Emulator) -> None:
    emulator.publish_prices({"text_summary": DeclaredPrice(PRICE)})
    expect(page.locator("#sold")).to_contain_text("up to 0.50 USDC")
    bought = purchases.authorize()
    row = page.locator(f'[data-id="{bought.id}"]')
    expect(row).to_contain_text("up to 0.50 USDC")
    assert purchases.complete(bought, values={"output-tokens": "1230"}).status_code == 200
    expect(row).to_contain_text("0.0123 of 0.50 USDC")
    row.click()
    expect(page.locator("#detail")).to_contain_text("0.0123 of 0.50 USDC")


def test_a_facilitator_that_moves_another_amount(page: Page, emulator: Emulator) -> None:
    emulator.settle_after("text_summary", SettlementRule(after_seconds=0, amount=5000))
    rules = page.locator("#rules")
    expect(rules).to_contain_text("text_summary succeeds at once, and moves 0.005 whatever was used")
