"""What is shown stays while things change: what is pressed, focused, selected, scrolled or unfolded."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from faregate.emulator import Emulator, SettlementRule
from faregate.emulator.tenants import Tenants

from .purchases import Purchases, choose

ALWAYS = "header :not(option), .sum, .plot, .listing > .bar"
"""What keeps its place on any screen; where the list is not above them, the forms do, too."""
FORMS = "#rules, #rule-part, #faults, #fault-part"
UNSEEN = 0.25
"""Pixels by which nothing is seen to move: layout rounds to multiples of 1/64."""
TOP = "one => one.getBoundingClientRect().top"


def row(page: Page, identifier: str) -> Locator:
    return page.locator(f'[data-id="{identifier}"]')


def press(page: Page, target: Locator, meanwhile: Callable[[], object]) -> None:
    """Something happens between press and release."""
    target.hover()
    page.mouse.down()
    meanwhile()
    page.mouse.up()


def test_a_row_that_is_pressed_is_clicked_though_all_moves_on(page: Page, purchases: Purchases) -> None:
    bought = purchases.authorize()
    expect(row(page, bought.id)).to_contain_text("authorized")

    def meanwhile() -> None:
        purchases.complete(bought)
        for _ in range(3):
            purchases.buy()
        expect(page.locator(".sum", has_text="succeeded")).to_contain_text("4")

    press(page, row(page, bought.id), meanwhile)
    expect(page.locator("#detail-title")).to_contain_text("succeeded")
    expect(row(page, bought.id)).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".row")).to_have_count(4)


def test_a_call_that_is_pressed_is_clicked_though_others_come(page: Page, purchases: Purchases) -> None:
    purchases.authorize("poor")
    call = page.locator("#calls button", has_text="not enough")

    def meanwhile() -> None:
        before = call.evaluate(TOP)
        purchases.buy()
        expect(page.locator(".sum", has_text="succeeded")).to_contain_text("1")
        assert call.evaluate(TOP) == pytest.approx(before, abs=UNSEEN)

    press(page, call, meanwhile)
    expect(page.locator("#payers")).to_contain_text("good")
    expect(page.locator("#detail")).to_contain_text("not enough USDC")
    expect(page.locator("#calls li")).to_have_count(5)


def test_a_row_lives_as_long_as_its_transaction(page: Page, purchases: Purchases) -> None:
    bought = purchases.authorize()
    row(page, bought.id).evaluate("one => { one.mine = one.querySelector('.what').firstChild.mine = true }")
    row(page, bought.id).focus()
    purchases.complete(bought)
    second = purchases.buy()
    expect(row(page, second)).to_contain_text("succeeded")
    expect(row(page, bought.id)).to_contain_text("succeeded")
    assert row(page, bought.id).evaluate("one => one.mine && one.querySelector('.what').firstChild.mine")
    assert row(page, bought.id).evaluate("one => document.activeElement === one")


def test_what_was_selected_scrolled_and_unfolded_stays_so(page: Page, purchases: Purchases) -> None:
    page.set_viewport_size({"width": 1280, "height": 500})
    bought = purchases.authorize()
    choose(page, row(page, bought.id))
    call = page.locator("#detail details", has_text="access 200")
    call.locator("summary").click()
    page.locator("#detail [data-part='PAYMENT-SIGNATURE'] summary").click()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#detail .pairs dd'))")
    scrolled = page.evaluate("(document.querySelector('.side').scrollTop = 60)")
    purchases.complete(bought)
    expect(page.locator("#detail-title")).to_contain_text("succeeded")
    assert bought.id in page.evaluate("String(getSelection())")
    assert page.evaluate("document.querySelector('.side').scrollTop") == scrolled
    expect(page.locator("#detail details[open]")).to_have_count(2)
    call.locator("summary").click()
    purchases.http.get(f"/transactions/{bought.id}")
    expect(page.locator("#detail summary", has_text="transaction 200")).to_be_visible()
    expect(page.locator("#detail details[open]")).to_have_count(1)


def test_focus_goes_to_what_is_left_when_its_button_goes(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    emulator.settle_after("*", SettlementRule(manual=True))
    identifier = purchases.buy("reads")
    choose(page, row(page, identifier))
    page.get_by_role("button", name="Settle", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#detail-title")).to_contain_text("succeeded")
    assert page.evaluate("document.getElementById('detail').contains(document.activeElement)")


def places(page: Page, what: str) -> list[tuple[str, list[float]]]:
    found: list[dict[str, Any]] = page.locator(what).evaluate_all(
        """all => all.filter(one => one.id !== "now").map(one => {
          const {x, y, width, height} = one.getBoundingClientRect();
          return {name: one.id || one.className || one.tagName, box: [x, y, width, height]};
        })"""
    )
    return [(one["name"], one["box"]) for one in found]


def assert_unmoved(before: list[tuple[str, list[float]]], after: list[tuple[str, list[float]]]) -> None:
    assert [name for name, _ in after] == [name for name, _ in before]
    for (name, box), (_, was) in zip(after, before, strict=True):
        assert box == pytest.approx(was, abs=UNSEEN), name


def test_a_pixel_is_a_move() -> None:
    assert_unmoved([("a", [0, 10, 5, 5])], [("a", [0, 10 + 2 / 64, 5, 5])])
    with pytest.raises(AssertionError):
        assert_unmoved([("a", [0, 10, 5, 5])], [("a", [0, 11, 5, 5])])


@pytest.mark.parametrize(
    ("width", "steady"), [(1440, f"{ALWAYS}, {FORMS}"), (360, ALWAYS)], ids=["desktop", "phone"]
)
def test_a_first_payment_moves_nothing_but_the_lists(
    page: Page, purchases: Purchases, tenants: Tenants, width: int, steady: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.get_by_text("No purchases yet")).to_be_visible()
    before = places(page, steady)
    purchases.buy("good", "euro_report"), purchases.buy("slow")
    tenants.get_or_create("another-tenant-with-a-long-name")
    expect(page.locator(".row")).to_have_count(2)
    expect(page.locator("#payers tbody tr")).to_have_count(2)
    expect(page.locator("#tenant")).to_contain_text("another")
    tenants.delete("another-tenant-with-a-long-name")
    assert_unmoved(before, places(page, steady))


def test_who_reads_further_down_is_not_moved_by_new_payments(page: Page, purchases: Purchases) -> None:
    page.set_viewport_size({"width": 1280, "height": 500})
    first, *_ = (purchases.buy() for _ in range(12))
    expect(page.locator(".row")).to_have_count(12)
    row(page, first).scroll_into_view_if_needed()
    before = row(page, first).evaluate(TOP)
    newest = purchases.buy()
    expect(row(page, newest)).to_be_attached()
    assert abs(row(page, first).evaluate(TOP) - before) < 1


def test_what_a_caller_wrote_is_shown_as_text(page: Page, purchases: Purchases, emulator: Emulator) -> None:
    """The service's message names the field that nobody knows."""
    body = {"revision_id": emulator.revision_id("text_summary"), "settlement_asset": "USDC", "<img src=x>": 1}
    resource = {"url": "https://seller.example/", "mime_type": "text/plain"}
    refused = purchases.http.post("/access", json={**body, "resource": resource})
    assert "<img src=x>" in refused.json()["message"]
    page.locator("#calls button").first.click()

    expect(page.locator("#detail p")).to_contain_text("<img src=x>")
    expect(page.locator("#detail img")).to_have_count(0)
