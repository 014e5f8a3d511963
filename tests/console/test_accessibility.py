"""Who can use the console: with keys alone, on a phone, in the dark; and what a payer cannot do to it."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from faregate.emulator import Emulator, SettlementRule
from faregate.rules.published_payers import TEST_PAYERS

from .contrast import FAINTEST, contrasts
from .purchases import Purchases, choose

CUT_OFF = """() => [...document.querySelectorAll(".row, .panel, header, #calls button")]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className)"""
SEEN = """() => document.activeElement === document.body ||
  getComputedStyle(document.activeElement).outlineStyle !== "none"
"""
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


def get_focus(page: Page, attribute: str) -> str | None:
    return page.evaluate(f"document.activeElement.getAttribute('{attribute}')")  # type: ignore[no-any-return]


def test_everything_can_be_done_with_the_keyboard(
    page: Page, purchases: Purchases, emulator: Emulator
) -> None:
    emulator.settle_after(TEST_PAYERS["good"].address, SettlementRule(manual=True))
    first, second = purchases.buy(), purchases.buy()
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("j")
    assert get_focus(page, "data-id") == second
    page.keyboard.press("ArrowDown")
    assert get_focus(page, "data-id") == first
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_contain_text(first)
    page.keyboard.press("s")
    expect(page.locator(f'[data-id="{first}"]')).to_contain_text("succeeded")
    page.keyboard.press("k")
    expect(page.locator("#detail")).to_contain_text(second)
    page.keyboard.press("f")
    expect(page.locator(f'[data-id="{second}"]')).to_contain_text("failed")
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    assert get_focus(page, "data-id") == second
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_tab_reaches_every_control_and_one_row(page: Page, purchases: Purchases) -> None:
    purchases.buy(), purchases.buy()
    expect(page.locator(".row")).to_have_count(2)
    page.locator("#filter-part summary").click()
    page.locator("body").click(position={"x": 1, "y": 1})
    reached: list[str] = []
    for _ in range(46):
        page.keyboard.press("Tab")
        assert page.evaluate(SEEN)
        reached.append(str(page.evaluate("document.activeElement.id || document.activeElement.className")))
    wanted = ("tenant", "freeze", "rate", "snapshot", "reset", "help", "search", "filter", "test-payer")
    assert [name for name in wanted if name not in reached] == []
    assert any(name.startswith("row") for name in reached)
    page.keyboard.press("Escape")
    page.locator(".row").first.focus()
    page.keyboard.press("j")
    held = page.locator('.row[tabindex="0"]')
    assert held.count() == 1
    assert held.get_attribute("data-id") == get_focus(page, "data-id")


def test_a_changing_transaction_keeps_the_focus(page: Page, purchases: Purchases) -> None:
    bought = purchases.authorize()
    choose(page, page.locator(f'[data-id="{bought.id}"]'))
    page.locator(".actions").first.get_by_role("button", name="Copy as curl").focus()
    purchases.complete(bought)
    expect(page.locator("#detail-title")).to_contain_text("succeeded")
    assert get_focus(page, "data-key") == "curl"


def test_a_phone_scrolls_in_one_direction(page: Page, purchases: Purchases) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    purchases.emulator.clock.freeze()
    identifier = purchases.buy("slow")
    purchases.http.get(f"/{'long/' * 60}")
    expect(page.locator("#calls button", has_text="long")).to_be_visible()
    purchases.emulator.faults.set_mode("reconcile-unavailable")
    page.locator(f'[data-id="{identifier}"]').wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate(CUT_OFF) == []
    choose(page, page.locator(f'[data-id="{identifier}"]'))
    for part in page.locator("#detail summary").all():
        part.click()
    assert page.locator("#detail").bounding_box() == {"x": 0, "y": 0, "width": 360, "height": 740}
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.getElementById('detail').scrollWidth") == 360
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()


def test_every_text_has_enough_contrast_in_both_colour_schemes(page: Page, purchases: Purchases) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    purchases.emulator.clock.freeze()  # or a text comes or goes between the two looks
    purchases.emulator.settle_after(TEST_PAYERS["good"].address, SettlementRule(manual=True))
    slow, *_ = (purchases.buy(payer) for payer in ("slow", "good", "reconciles", "rejected"))
    purchases.authorize("poor")
    purchases.emulator.faults.set_mode("slow-answer")
    purchases.emulator.settle(purchases.buy())
    expect(page.locator(".row")).to_have_count(5)
    choose(page, page.locator(f'[data-id="{slow}"]'))
    for part in page.locator("summary").all():
        part.click()
    light = contrasts(page)
    page.emulate_media(color_scheme="dark")
    dark = contrasts(page)
    assert len(light) == len(dark) > 100
    assert light != dark
    assert [one for one in (*light, *dark) if one[0] < FAINTEST] == []


@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing(page: Page, purchases: Purchases, width: int) -> None:
    """The rules of axe-core, those of WCAG 2.2 among them."""
    page.set_viewport_size({"width": width, "height": 800})
    purchases.buy(), purchases.authorize("poor")
    purchases.emulator.faults.set_mode("slow-answer")
    purchases.emulator.settle_after("*", SettlementRule(after_reads=2))
    for part in page.locator(".panel > details > summary").all():
        part.click()
    choose(page, page.locator(".row", has_text="succeeded"))
    expect(page.locator("#faults")).to_contain_text("latency")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert len(found.response["passes"]) > 40


def test_text_of_a_payer_is_never_markup(page: Page, purchases: Purchases) -> None:
    bought = purchases.authorize(description=HOSTILE)
    purchases.complete(bought)
    choose(page, page.locator(f'[data-id="{bought.id}"]'))
    expect(page.locator("#detail")).to_contain_text(HOSTILE)
    for part in page.locator("#detail summary").all():
        part.click()
    assert page.locator("#detail img, #list img, #calls img").count() == 0
    assert "taken" not in page.title()


def test_reduced_motion_is_respected(page: Page, purchases: Purchases) -> None:
    page.emulate_media(reduced_motion="reduce")
    identifier = purchases.buy()
    page.locator(f'[data-id="{identifier}"]').wait_for()
    assert page.evaluate("getComputedStyle(document.querySelector('.row')).animationName") == "none"
