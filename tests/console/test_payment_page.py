"""The page of a 402, as a person sees it in a browser: readable by everybody, and it costs nothing."""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from werkzeug.serving import make_server

from faregate import PaymentPage, Paywall
from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import transport
from faregate.offers import offer
from faregate.wsgi import Environ, PaywallMiddleware

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><style>*{display:none}</style>"
SOLD = offer("daily_report", description="The weather report of today, for one city")


def answer(_environ: Environ, start_response: Callable[..., object]) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Sunny."]


@pytest.fixture(scope="module")
def own_emulator() -> Emulator:
    return Emulator()


@pytest.fixture(scope="module")
def shop(own_emulator: Emulator) -> Iterator[str]:
    page = PaymentPage("Weather & Co", contact="https://weather.example/help", note="Thank you for asking.")
    paywall = Paywall(base_url="emulator:", environ={}, transport=transport(own_emulator), payment_page=page)
    hostile = offer("daily_report", description=HOSTILE)
    app = PaywallMiddleware(answer, paywall, offers={"/report": SOLD, "/hostile": hostile})
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_everybody_can_read_the_page(alone: Page, shop: str, scheme: str, width: int) -> None:
    """No script runs, the style sheet is allowed by its hash, and axe-core finds nothing."""
    complaints: list[str] = []
    alone.on("console", lambda message: complaints.append(message.text))
    alone.set_viewport_size({"width": width, "height": 800})
    alone.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    response = alone.goto(f"{shop}/report?city=Oslo")
    assert response is not None
    assert response.status == 402
    expect(alone.get_by_role("heading", level=1)).to_have_text(SOLD.description or "")
    expect(alone.locator("body")).to_contain_text("0.05 USDC on Base Sepolia")
    expect(alone.locator("pre")).to_contain_text(f"faregate pay '{shop}/report?city=Oslo'")
    assert alone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = alone.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    found = Axe().run(alone)
    assert found.violations_count == 0, found.generate_report()
    assert [one for one in complaints if "402" not in one and "favicon" not in one] == []


def test_a_visit_costs_nothing_and_the_page_can_be_paid(alone: Page, shop: str) -> None:
    response = alone.goto(f"{shop}/report")
    alone.reload()
    assert response is not None
    proof = Wallet().pay(response.headers["payment-required"])
    paid = alone.request.get(f"{shop}/report", headers={"PAYMENT-SIGNATURE": proof, "Accept": "text/html"})
    assert (paid.status, paid.text()) == (200, "Sunny.")


def test_text_of_an_offer_is_never_markup(alone: Page, shop: str) -> None:
    alone.goto(f"{shop}/hostile?x=</pre><script>document.title='taken'</script>")
    expect(alone.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert alone.title() == "Payment required"
    assert alone.locator("img, script").count() == 0
