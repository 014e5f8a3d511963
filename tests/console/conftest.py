"""One browser and one server for the console's tests; each test has a tenant and a page of its own."""

import re
from collections.abc import Iterator
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from faregate.emulator import Emulator
from faregate.emulator.console import app as feed
from faregate.emulator.server import serve
from faregate.emulator.tenants import Tenants
from tests.servers.shared import need

from .browser import CHROMIUM_MISSING, chromium
from .purchases import Purchases

DESKTOP: Final[ViewportSize] = {"width": 1360, "height": 900}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    need("chromium", CHROMIUM_MISSING)
    with chromium() as found:
        yield found


@pytest.fixture(scope="package", autouse=True)
def _fast_polling() -> Iterator[None]:
    """The feed looks more often than for a person: no test waits long for the next look."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(feed, "POLL_SECONDS", 0.08)
        yield


@pytest.fixture(scope="package")
def tenants() -> Tenants:
    return Tenants(Emulator())


@pytest.fixture(scope="package")
def url(tenants: Tenants) -> Iterator[str]:
    with serve(tenants) as found:
        yield found


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """The name of this test's tenant."""
    return re.sub("[^A-Za-z0-9_-]+", "-", request.node.name)[:60]


@pytest.fixture
def emulator(tenants: Tenants, tenant: str) -> Iterator[Emulator]:
    yield tenants.get_or_create(tenant)
    tenants.delete(tenant)


@pytest.fixture
def purchases(url: str, tenant: str, emulator: Emulator) -> Iterator[Purchases]:
    headers = {"Authorization": f"Bearer svc_test_tenant_{tenant}"}
    with httpx.Client(base_url=f"{url}/merchant/v1", headers=headers, trust_env=False) as client:
        yield Purchases(client, emulator)


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    made.set_default_timeout(5_000)
    yield made
    made.close()


@pytest.fixture(scope="package")
def _page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def page(_page: Page, url: str, tenant: str, emulator: Emulator) -> Iterator[Page]:
    """The console of this test's tenant. It complains of nothing and asks nobody else for anything."""
    complaints: list[str] = []
    asked: list[str] = []
    hears = {
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    for event, hear in hears.items():
        _page.on(event, hear)  # type: ignore[call-overload]
    _page.set_viewport_size(DESKTOP)
    _page.emulate_media(color_scheme="null", reduced_motion="null")
    _page.goto(f"{url}/#{tenant}")
    expect(_page).to_have_title(f"{tenant} · faregate emulator")
    _page.locator("#link.connected").wait_for()
    yield _page
    _page.goto("about:blank")
    for event, hear in hears.items():
        _page.remove_listener(event, hear)
    assert [one for one in asked if not one.startswith(f"{url}/")] == []
    assert complaints == []


@pytest.fixture
def alone(browser: Browser) -> Iterator[Page]:
    """A page that may complain: of an emulator that goes away, or of one that refuses."""
    page = browser.new_page()
    page.set_default_timeout(5_000)
    yield page
    page.close()
