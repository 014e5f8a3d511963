"""The console of the self-hosted service in a browser: the login and every page, in two widths."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from faregate.rules.payments import SettlementPending
from tests.service.console_server import HOSTILE, ConsoleServer, serving_console
from tests.service.databases import new_database
from tests.service.sales import authorize, failed, settle, submit

from .contrast import FAINTEST, contrasts

CUT_OFF = """() => [...document.querySelectorAll("td, dd, p, header, table")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    with new_database("sqlite", tmp_path_factory.mktemp("service")) as url, serving_console(url) as running:
        yield running


@pytest.fixture(scope="module")
def reconciling(server: ConsoleServer) -> str:
    """A payment that reconciles, among others of every status."""
    store = server.open_store()
    settle(store), settle(store, f"0x{'ab' * 20}"), submit(store), authorize(store)
    store.record_outcome(held := authorize(store), failed(held))
    payment = submit(store)
    attempt = store.begin_attempt(payment)
    assert attempt is not None
    note = f"https://pay.example: 500 settlement_pending {HOSTILE}"
    store.record_answer(payment, attempt, f"0x{'cd' * 32}", note)
    store.postpone(payment, attempt, SettlementPending("reconciling"), None)
    return payment.id


@pytest.fixture
def visitor(browser: Browser, server: ConsoleServer) -> Iterator[Page]:
    """A page that complains of nothing, and asks nobody else for anything."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(10_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.extend([request.url][request.url.startswith(server.url) :]))
    yield page
    context.close()
    assert complaints == []


def log_in(page: Page, server: ConsoleServer) -> None:
    page.goto(f"{server.url}/console")
    page.get_by_label("API key").fill(server.make_key().secret)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_people_can_use_every_page(visitor: Page, server: ConsoleServer, reconciling: str) -> None:
    visitor.goto(f"{server.url}/console")
    _check(visitor)
    log_in(visitor, server)
    paths = (
        "",
        "/payments",
        "/payments?status=reconciling",
        "/payers",
        "/resources",
        f"/payments/{reconciling}",
    )
    for path in paths:
        visitor.goto(f"{server.url}/console{path}")
        _check(visitor)


def _check(page: Page) -> None:
    """Nothing is cut off on a desktop or a phone, every text stands out, and axe finds nothing."""
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 840})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(CUT_OFF) == []
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert [one for one in contrasts(page) if one[0] < FAINTEST] == []


def test_logging_in_by_the_keyboard_and_out(visitor: Page, server: ConsoleServer, reconciling: str) -> None:
    log_in(visitor, server)
    visitor.get_by_role("link", name="reconciling").click()
    visitor.locator("tbody a").first.click()
    expect(visitor.locator(".why")).to_contain_text("settlement_pending")
    visitor.get_by_role("button", name="Log out").click()
    expect(visitor.get_by_label("API key")).to_be_visible()
    visitor.goto(f"{server.url}/console/payments/{reconciling}")
    expect(visitor.get_by_label("API key")).to_be_visible()
