"""The console while things happen: what is bought appears, and what is told to it is done."""

import re

from playwright.sync_api import Locator, Page, expect

from faregate.core.models import WireRequest
from faregate.emulator import Emulator, SettlementRule
from faregate.emulator.console.changes import SHOWN_CALLS
from faregate.rules.published_payers import TEST_PAYERS

from .purchases import Purchases, choose


def row(page: Page, identifier: str) -> Locator:
    return page.locator(f'[data-id="{identifier}"]')


def total(page: Page, what: str) -> Locator:
    return page.locator(".sum", has_text=what).locator("b")


def test_a_purchase_appears_as_it_happens_with_its_whole_timeline(page: Page, purchases: Purchases) -> None:
    expect(page.get_by_text("No purchases yet")).to_be_visible()
    bought = purchases.authorize()
    expect(row(page, bought.id)).to_contain_text("authorized")
    expect(page.get_by_text("No purchases yet")).to_be_hidden()
    purchases.complete(bought)
    expect(row(page, bought.id)).to_contain_text("succeeded")
    expect(row(page, bought.id)).to_contain_text("0.01 USDC")
    expect(total(page, "USDC revenue")).to_have_text("0.01")
    choose(page, row(page, bought.id))
    steps = page.locator(".steps li")
    expect(steps).to_have_count(4)
    for step, text in enumerate(["402, payment required", "authorized", "complete, work", "settled"]):
        expect(steps.nth(step)).to_contain_text(text)
        expect(steps.nth(step).locator("time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d\.\d{3}"))
    expect(page.locator("#detail")).to_contain_text(bought.id)


def test_an_older_purchase_keeps_its_timeline_when_the_page_is_loaded_again(
    page: Page, purchases: Purchases
) -> None:
    identifier = purchases.buy()
    for _ in range(SHOWN_CALLS):
        purchases.emulator.respond(WireRequest("GET", "/merchant/v1/resources"))
    page.reload()
    expect(row(page, identifier).locator(".code")).to_have_text("402")
    choose(page, row(page, identifier))
    expect(page.locator(".steps li").first).to_contain_text("402, payment required")
    expect(page.locator("#detail h3").last).to_have_text("Calls (3 older ones are no longer kept)")


def test_headers_are_shown_decoded_and_the_signature_shortened(page: Page, purchases: Purchases) -> None:
    identifier = purchases.buy()
    choose(page, row(page, identifier))
    for name in ("PAYMENT-REQUIRED", "PAYMENT-SIGNATURE", "PAYMENT-RESPONSE", "Receipt"):
        page.locator("#detail summary", has_text=name).click()
    detail = page.locator("#detail")
    expect(detail).to_contain_text("accepts.0.maxTimeoutSeconds")
    expect(detail).to_contain_text("eip155:84532")
    expect(detail).to_contain_text("validBefore")
    signature = detail.locator("dt", has_text="signature").locator("xpath=following-sibling::dd[1]")
    assert len(signature.inner_text()) < 20


def test_balances_move_with_the_payment(page: Page, purchases: Purchases) -> None:
    purchases.buy()
    good = page.locator("#payers tbody tr", has_text="good")
    expect(good).to_contain_text("999,999.99")
    purchases.buy()
    expect(good).to_contain_text("999,999.98")
    expect(good).to_contain_text("▼ −0.01")


def test_a_payment_is_settled_and_another_failed_by_a_button(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    emulator.settle_after(TEST_PAYERS["good"].address, SettlementRule(manual=True))
    first, second = purchases.buy(), purchases.buy()
    choose(page, row(page, first))
    page.get_by_role("button", name="Settle", exact=True).click()
    expect(row(page, first)).to_contain_text("succeeded")
    choose(page, row(page, second))
    page.get_by_role("button", name="Fail", exact=True).click()
    expect(row(page, second)).to_contain_text("failed")
    expect(page.get_by_role("button", name="Settle", exact=True)).to_be_hidden()
    assert emulator.balance(emulator.account.seller.pay_to) == 10_000


def test_time_that_is_advanced_settles_what_is_slow(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    page.get_by_role("button", name="Freeze").click()
    expect(page.locator("#mode")).to_contain_text("frozen")
    identifier = purchases.buy("slow")
    expect(row(page, identifier)).to_contain_text("settling")
    page.get_by_role("button", name="Advance by 1 minute").click()
    expect(row(page, identifier)).to_contain_text("succeeded")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#mode")).to_contain_text("running")
    assert emulator.clock.mode == "real"


def test_a_payment_falls_due_while_nobody_calls(page: Page, purchases: Purchases, emulator: Emulator) -> None:
    identifier = purchases.buy("slow")
    emulator.clock.run(rate=60)
    expect(page.locator("#mode")).to_contain_text("60×")
    expect(row(page, identifier)).to_contain_text("succeeded")


def test_a_tenant_goes_back_to_a_snapshot_and_to_its_beginning(page: Page, purchases: Purchases) -> None:
    first = purchases.buy()
    page.get_by_role("button", name="Snapshot").click()
    expect(page.locator("#restore option")).to_have_count(2)
    second = purchases.buy()
    expect(row(page, second)).to_be_visible()
    page.locator("#restore").select_option("snapshot-1")
    expect(row(page, second)).to_be_hidden()
    expect(row(page, first)).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Really reset?").click()
    expect(page.get_by_text("No purchases yet")).to_be_visible()
    expect(total(page, "USDC revenue")).to_have_text("0.00")


def test_a_fault_is_added_strikes_and_is_cleared(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    page.locator("#fault-part").evaluate("part => { part.open = true }")
    form = page.locator("#add-fault")
    form.locator("[name=kind]").select_option("status")
    form.locator("[name=operation]").select_option("complete")
    form.locator("[name=times]").fill("2")
    page.get_by_role("button", name="Add fault").click()
    expect(page.locator("#faults")).to_contain_text("applied 0 of 2 times")
    bought = purchases.authorize()
    assert purchases.complete(bought).status_code == 503
    expect(page.locator("#faults")).to_contain_text("applied 1 of 2 times")
    expect(row(page, bought.id)).to_contain_text("status-1")
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator("#faults")).to_contain_text("No faults set")
    form.locator("[name=mode]").select_option("double-402")
    expect(page.locator("#faults")).to_contain_text("second-402")
    assert emulator.faults.mode == "double-402"
    page.get_by_role("button", name="Remove second-402").click()
    expect(page.locator("#faults")).to_contain_text("No faults set")


def test_a_refused_payment_is_seen_with_its_reason(page: Page, purchases: Purchases) -> None:
    assert purchases.authorize("poor").status == 402
    call = page.locator("#calls button").first
    expect(call).to_contain_text("not enough USDC")
    call.click()
    expect(page.locator("#detail")).to_contain_text("payment_required: the payer has not enough USDC")


def test_one_page_shows_one_tenant(page: Page, purchases: Purchases, emulator: Emulator) -> None:
    identifier = purchases.buy()
    expect(row(page, identifier)).to_be_visible()
    page.locator("#tenant").select_option("main")
    expect(row(page, identifier)).to_be_hidden()
    expect(page).to_have_title("main · faregate emulator")
