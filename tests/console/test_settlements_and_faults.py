"""The console says how payments end and what goes wrong: by keys alone, for all, a resource, a payer, one."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import Page, expect

from faregate.emulator import Emulator, Wallet
from faregate.rules.published_payers import TEST_PAYERS

from .purchases import Purchases, choose

GOOD = TEST_PAYERS["good"].address


def fill(page: Page, form: str, given: Mapping[str, str]) -> None:
    part = page.locator(f"details:has(> {form})")
    if part.get_attribute("open") is None:
        part.locator("summary").click()
    for name, value in given.items():
        control = page.locator(f"{form} [name={name}]")
        select = control.evaluate("one => one.tagName") == "SELECT"
        control.select_option(value) if select else control.fill(value)


def set_rule(page: Page, **given: str) -> None:
    fill(page, "#add-rule", given)
    page.get_by_role("button", name="Add rule").click()


@pytest.mark.parametrize(
    ("given", "told", "status"),
    [
        ({"measure": "after_seconds", "count": "5"}, "succeeds after 5.0 s", "settling"),
        (
            {"measure": "after_reads", "count": "2", "via": "reconciling", "to": "failed"},
            "fails on read 2, reconciling until then",
            "reconciling",
        ),
        ({"measure": "until_expiry"}, "fails when the authorization expires", "settling"),
        ({"measure": "manual", "via": "reconciling"}, "waits for Settle or Fail, reconciling", "reconciling"),
        ({"measure": "at_once", "to": "failed"}, "fails at once", "failed"),
    ],
)
def test_a_rule_is_set_holds_and_is_taken_back(
    page: Page, purchases: Purchases, given: dict[str, str], told: str, status: str
) -> None:
    set_rule(page, target=GOOD, **given)
    expect(page.locator("#rules")).to_contain_text(f"good {told}")
    identifier = purchases.buy("good")
    expect(page.locator(f'[data-id="{identifier}"]')).to_contain_text(status)
    page.locator("#rules button").click()
    expect(page.locator("#rules")).to_contain_text("Payments settle at once")
    expect(page.locator(f'[data-id="{purchases.buy("good")}"]')).to_contain_text("succeeded")


def test_what_a_resource_began_with_comes_back(page: Page, purchases: Purchases) -> None:
    set_rule(page, target="slow_settlement", measure="at_once")
    expect(page.locator("#rules")).to_contain_text("slow_settlement succeeds at once")
    page.get_by_role("button", name="Remove slow_settlement").click()
    expect(page.locator("#rules")).to_contain_text("Payments settle at once")
    stranger = Wallet(clock=purchases.emulator.clock).pay(purchases.ask("slow_settlement"))
    assert purchases.complete(purchases.access(stranger, "slow_settlement")).json()["status"] == "settling"


def test_all_payments_can_be_made_to_wait(page: Page, emulator: Emulator) -> None:
    set_rule(page, measure="manual")
    expect(page.locator("#rules")).to_contain_text("all waits for Settle or Fail")
    page.get_by_role("button", name="Remove *").click()
    expect(page.locator("#rules")).to_contain_text("Payments settle at once")


@pytest.mark.parametrize("width", [1280, 360])
def test_the_open_transaction_gets_a_rule_by_keys_alone(page: Page, purchases: Purchases, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    bought = purchases.authorize()
    choose(page, page.locator(f'[data-id="{bought.id}"]'))
    page.get_by_role("button", name="Change how this payment ends").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#add-rule [name=measure]")).to_be_focused()
    expect(page.locator("#add-rule [name=measure]")).to_be_in_viewport()
    expect(page.locator("#add-rule [name=target]")).to_have_value(bought.id)
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    purchases.buy("slow")  # the choices are drawn again
    expect(page.locator("#payers")).to_contain_text("slow")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#toast")).to_contain_text("Rule added")
    assert purchases.complete(bought).json()["status"] == "reconciling"
    expect(page.locator(f'[data-id="{bought.id}"]')).to_contain_text("reconciling")
    expect(page.locator("#rules")).to_contain_text("Payments settle at once")


def test_a_rule_that_cannot_be_is_refused_with_its_reason(
    alone: Page, url: str, tenant: str, emulator: Emulator
) -> None:
    alone.goto(f"{url}/#{tenant}")
    alone.locator("#link.connected").wait_for()
    set_rule(alone, measure="after_seconds", count="-1")
    expect(alone.locator("#toast")).to_contain_text("after_seconds")
    expect(alone.locator("#rules")).to_contain_text("Payments settle at once")


def test_a_form_belongs_to_its_tenant(page: Page, emulator: Emulator) -> None:
    fill(page, "#add-rule", {"target": GOOD, "measure": "manual"})
    page.locator("#tenant").select_option("main")
    expect(page.locator("#add-rule [name=measure]")).to_have_value("at_once")
    expect(page.locator("#add-rule [name=target]")).to_have_value("")
    expect(page.locator("#rule-part")).not_to_have_attribute("open", "")
    page.locator("#rule-part summary").click()
    expect(page.locator("#add-rule [name=via]")).to_be_hidden()


def test_an_answer_is_changed_for_one_payer_only(page: Page, purchases: Purchases) -> None:
    fill(page, "#add-fault", {"kind": "changed-body", "operation": "complete", "target": GOOD})
    page.locator("#add-fault [name=fields]").fill('{"status": "tomorrow"}')
    page.get_by_role("button", name="Add fault").click()
    expect(page.locator("#faults")).to_contain_text('fields {"status":"tomorrow"}')
    assert purchases.complete(purchases.authorize("reads")).json()["status"] == "settling"
    assert purchases.complete(purchases.authorize("good")).json()["status"] == "tomorrow"
    expect(page.locator("#faults")).to_contain_text("No faults set")


@pytest.mark.parametrize("fields", ["status", "[1]", "{"])
def test_fields_that_are_no_object_are_refused(page: Page, emulator: Emulator, fields: str) -> None:
    fill(page, "#add-fault", {"kind": "changed-body", "fields": fields})
    page.get_by_role("button", name="Add fault").click()
    expect(page.locator("#toast")).to_contain_text("fields")
    assert list(emulator.faults) == []


def test_an_address_is_shown_short_and_copied_whole(page: Page, purchases: Purchases) -> None:
    purchases.buy()
    page.get_by_role("button", name=f"Copy {GOOD}").click()
    expect(page.locator("#toast")).to_contain_text(GOOD)
    assert page.evaluate("navigator.clipboard.readText()") == GOOD
