"""Every Python snippet of the README and the user docs runs, and what it sells is really paid for.

`<!-- pays: GET /path -->` before a snippet says which request buys something of the app it makes. A
snippet without an app is run as it stands; the addresses it names are those of real servers.
"""

import logging
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import httpx
import pytest

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve
from tests.servers.http import serving, serving_wsgi
from tests.service.in_process import build_environ
from tests.support.snippets import APPS, PAGES, ROOT, SNIPPETS, Snippet, run

SELLER = "http://127.0.0.1:8000"
SERVICE = "http://127.0.0.1:8402"


OTHERS = [one for one in SNIPPETS if not one.makes_an_app and not one.takes_fixtures]


@pytest.fixture(autouse=True)
def _log_level() -> Generator[None]:
    """Snippets show how to configure logging, which is the whole process's."""
    logger = logging.getLogger("faregate")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with serve(Emulator()) as url:
        monkeypatch.setenv("FAREGATE_BASE_URL", url)
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        yield url


@pytest.mark.parametrize("snippet", APPS, ids=lambda one: one.place)
def test_an_app_is_paid(
    snippet: Snippet, service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert snippet.pays, "say before the snippet what it sells: <!-- pays: GET /path -->"
    if "price=" in snippet.code:
        for name, value in build_environ(tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("FAREGATE_API_KEY")
    with serving_any(run(snippet.code).app) as seller:
        for request in snippet.pays:
            method, path = request.split()
            _buy(method, seller + path)


@pytest.mark.parametrize("snippet", OTHERS, ids=lambda one: one.place)
def test_a_snippet_runs(
    snippet: Snippet, service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Against the shop the README's quickstart makes, and with nothing else on the path."""
    monkeypatch.chdir(tmp_path)
    shop = run(next(one.code for one in APPS if one.place.startswith("docs/quickstart.md")), "shop")
    monkeypatch.setitem(sys.modules, "shop", shop)
    with serving(shop.app) as seller:
        module = run(snippet.code.replace(SELLER, seller).replace(SERVICE, service))
    for name, test in vars(module).items():
        if name.startswith("test_"):
            test()


def test_the_embedded_emulator_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAREGATE_API_KEY", raising=False)
    monkeypatch.setenv("FAREGATE_BASE_URL", "emulator:")
    first = APPS[0]
    with serving(run(first.code).app) as seller:
        method, path = first.pays[0].split()
        _buy(method, seller + path)


def test_the_readme_has_twelve_lines_per_framework() -> None:
    shown = [one for one in SNIPPETS if one.place.startswith("README") and not one.takes_fixtures]
    lengths = {one.place: len(one.code.splitlines()) for one in shown}
    assert len(lengths) == 6
    assert max(lengths.values()) <= 12, lengths


def test_each_page_is_read() -> None:
    assert {one.place.split(":")[0] for one in SNIPPETS} == set(PAGES)


def serving_any(app: Any) -> AbstractContextManager[str]:
    """An ASGI app's call is a coroutine, a WSGI app's is not."""
    return serving(app) if iscoroutinefunction(type(app).__call__) else serving_wsgi(app)


def _buy(method: str, url: str) -> None:
    """Unpaid it is 402 and nothing else; paid it is 200 with the proof."""
    unpaid = httpx.request(method, url)
    assert unpaid.status_code == 402, unpaid.text
    assert set(unpaid.json()) == {"code", "message"}
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    paid = httpx.request(method, url, headers={"PAYMENT-SIGNATURE": proof})
    assert paid.status_code == 200, paid.text
    assert "PAYMENT-RESPONSE" in paid.headers


def test_the_application_is_not_longer_than_that_of_the_x402_package() -> None:
    """With all its settings, as docs/migrate-from-x402.md shows both."""
    page = (ROOT / "docs" / "migrate-from-x402.md").read_text()
    settings = count_lines(page.partition("```ini\n")[2])
    for part in page.split("## Before and after")[1:]:
        before, after = (count_lines(one) for one in part.split("```python\n")[1:3])
        assert after + settings <= before, (after, settings, before)


def count_lines(text: str) -> int:
    return sum(1 for line in text.partition("```")[0].splitlines() if line.strip())
