"""Filters of the list, the panel of what is sold, and purchases by test payers."""

import re

import httpx
from playwright.sync_api import Page, expect

from faregate.emulator import Emulator

from .purchases import Purchases, choose


def keys_of(page: Page) -> list[str]:
    return page.locator(".row .what > :first-child").all_inner_texts()


def test_filters_narrow_the_list_and_are_kept_in_the_url(
    page: Page, purchases: Purchases, url: str, tenant: str
) -> None:
    wanted = purchases.buy("slow", "daily_report")
    purchases.buy("good", "daily_report")
    purchases.fail(purchases.authorize("slow", "text_summary"), "model_overloaded")
    expect(page.locator(".row")).to_have_count(3)

    page.keyboard.press("/")
    page.locator("#search").fill(wanted[:20].upper())
    expect(page.locator(".row")).to_have_count(1)
    page.locator("#search").fill("")
    page.locator("#filter-payer").select_option(label="slow")
    expect(page.locator(".row")).to_have_count(2)
    page.locator("#filter-resource").select_option("daily_report")
    expect(page.locator(".row")).to_have_count(1)
    expect(page).to_have_url(re.compile(rf"#{tenant}\?resource=daily_report&payer=0x\w+$"))

    page.reload()
    expect(page.locator(".row")).to_have_count(1)
    page.locator("#filter").select_option("failed")
    expect(page.locator("#no-match")).to_be_visible()
    page.locator("#clear-filters").click()
    expect(page.locator(".row")).to_have_count(3)
    expect(page).to_have_url(f"{url}/#{tenant}")


def test_a_row_says_why_it_failed_and_the_detail_what_the_seller_answered(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    purchases.fail(purchases.authorize("good", "text_summary"), "model_overloaded")
    refused = purchases.authorize("rejected", "daily_report")
    told = {"response_status": 201, "response_size_bytes": 2048, "response_content_type": "text/plain"}
    purchases.complete(refused, resource_execution=told)

    expect(page.locator(".row").nth(1)).to_contain_text("model_overloaded")
    expect(page.locator(".row").nth(0)).to_contain_text("payment failed")
    choose(page, page.locator(".row").nth(0))
    expect(page.locator("#detail")).to_contain_text("201, text/plain, 2.0 KiB")


def test_a_test_payment_needs_no_application(page: Page, emulator: Emulator) -> None:
    expect(page.locator("#env")).to_contain_text("FAREGATE_BASE_URL")
    expect(page.locator("#test-payers")).to_contain_text("good, slow")
    page.locator("#first-payment").click()
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#nothing")).to_be_hidden()
    # The price that is asked for first is no error.
    expect(page.locator("#calls li").last.locator("b")).to_have_class("price-asked")

    page.locator("#test-payer").select_option("poor")
    page.get_by_role("button", name="Test payment for token_meter").click()
    expect(page.locator("#toast")).to_have_text("the payer has not enough USDC")
    page.locator("#test-payer").select_option("slow")
    page.get_by_role("button", name="Test payment for token_meter").click()
    expect(page.locator("#toast")).to_have_text("slow paid for token_meter: settling.")
    assert [call.status for call in emulator.calls("complete")] == [200, 202]


def test_what_is_sold_shows_prices(page: Page, emulator: Emulator) -> None:
    sold = page.locator("#sold li")
    expect(sold.filter(has_text="daily_report")).to_contain_text("0.05 USDC")
    emulator.require_payment("daily_report", required=False)
    expect(sold.filter(has_text="daily_report")).to_contain_text("free")
    expect(page.get_by_role("button", name="Test payment for daily_report")).to_have_count(0)


def test_a_test_payment_for_something_else_is_refused(url: str, tenant: str, emulator: Emulator) -> None:
    path = f"{url}/_emulator/tenants/{tenant}/test-payments"
    unknown = httpx.post(path, json={"resource": "none"})
    nobody = httpx.post(path, json={"resource": "daily_report", "payer": "none"})
    free = httpx.post(path, json={"resource": "free_notes"})

    assert (unknown.status_code, unknown.json()["message"]) == (
        422,
        "resource: nothing with the key 'none' is sold",
    )
    assert (nobody.status_code, "there is no test payer 'none'" in nobody.json()["message"]) == (422, True)
    assert free.json()["transaction"] is None
    assert "200" in free.json()["message"]
