"""The page and its connection: cut, silent, refused, and back again with every transaction once."""

from typing import Final
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Page, Route, expect

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from faregate.emulator.tenants import Tenants

from .purchases import Purchases, choose

QUIET_MS: Final = 26_000
"""More than the page waits for a sign of life."""


def bought(url: str, emulator: Emulator, key: str = TEST_KEY) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{url}/merchant/v1", headers=headers, trust_env=False) as http:
        return Purchases(http, emulator).buy()


def test_a_server_that_comes_back_is_found_and_nothing_is_doubled_or_missing(alone: Page) -> None:
    emulator = Emulator()
    with serve(emulator) as url:
        first = bought(url, emulator)
        alone.goto(url)
        choose(alone, alone.locator(f'[data-id="{first}"]'))
    expect(alone.locator("#link")).to_have_text("reconnecting")
    stands = alone.locator("#now").inner_text()
    with serve(emulator, port=urlsplit(url).port or 0) as again:
        second = bought(again, emulator)
        expect(alone.locator("#link")).to_have_text("connected")
        expect(alone.locator(".row")).to_have_count(2)
        assert alone.locator(".row").evaluate_all("all => all.map(one => one.dataset.id)") == [second, first]
        expect(alone.locator("#detail")).to_contain_text(first)
        expect(alone.locator("#now")).not_to_have_text(stands)


def test_a_connection_that_is_silent_is_made_anew(alone: Page) -> None:
    """As after a laptop has slept: no end is heard, and no beat."""
    alone.clock.install()
    with serve(Emulator()) as url:
        alone.goto(url)
        expect(alone.locator("#link")).to_have_text("connected")
        with alone.expect_request("**/events*"):
            alone.clock.run_for(QUIET_MS)
        expect(alone.locator("#link")).to_have_text("connected")


def test_an_answer_that_is_no_feed_is_asked_for_again(alone: Page) -> None:
    asked: list[str] = []

    def refuse_first(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=503) if len(asked) == 1 else route.continue_()

    alone.route("**/events*", refuse_first)
    with serve(Emulator()) as url:
        alone.goto(url)
        expect(alone.locator("#link")).to_have_text("connected")
    assert len(asked) == 2


def test_a_tenant_that_did_not_come_back_leads_to_the_main_one(alone: Page) -> None:
    tenants = Tenants(Emulator())
    with serve(tenants) as url:
        bought(url, tenants.get_or_create("shop"), "svc_test_tenant_shop")
        alone.goto(f"{url}/#shop")
        expect(alone.locator(".row")).to_have_count(1)
    with serve(Tenants(Emulator()), port=urlsplit(url).port or 0):
        expect(alone).to_have_title("main · faregate emulator")
        expect(alone.locator("#toast")).to_have_text("Tenant shop was deleted.")
        expect(alone.locator("#link")).to_have_text("connected")
        expect(alone.locator(".row")).to_have_count(0)


def test_another_page_that_resets_the_tenant_is_followed(
    page: Page, alone: Page, purchases: Purchases, url: str, tenant: str
) -> None:
    choose(page, page.locator(f'[data-id="{purchases.buy()}"]'))
    alone.goto(f"{url}/#{tenant}")
    alone.get_by_role("button", name="Reset").click()
    alone.get_by_role("button", name="Really reset?").click()
    expect(page.get_by_text("No purchases yet")).to_be_visible()
    expect(page.locator("#detail")).to_be_hidden()
    identifier = purchases.buy()
    for one in (page, alone):
        expect(one.locator(".row")).to_have_count(1)
        expect(one.locator(f'[data-id="{identifier}"]')).to_be_visible()


def test_what_belongs_to_a_tenant_is_there_again(
    page: Page, purchases: Purchases, tenants: Tenants, url: str, tenant: str
) -> None:
    other = f"{tenant}-2"[-60:]
    here, there = purchases.buy(), bought(url, tenants.get_or_create(other), f"svc_test_tenant_{other}")
    for name, identifier in ((other, there), (tenant, here), (other, there)):
        page.locator("#tenant").select_option(name)
        expect(page.locator(f'[data-id="{identifier}"]')).to_be_visible()
        expect(page.locator(".row")).to_have_count(1)
    tenants.delete(other)
    expect(page).to_have_title("main · faregate emulator")
