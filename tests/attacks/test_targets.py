"""Request targets that are no path: some servers pass them on, and some routers look for a path inside."""

from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from faregate.asgi import PaywallMiddleware
from faregate.emulator import Wallet
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.servers import SERVERS
from tests.attacks.site import make_paywall
from tests.attacks.sites.open_apps import ON_ASYNCIO, SHELVES, give
from tests.contract.raw_http import exchange, request, status_of

FORMS: dict[str, Callable[[str], str]] = {
    "absolute form": lambda path: f"http://seller.example{path}",
    "absolute form, upper case": lambda path: f"HTTP://seller.example{path}",
    "absolute form with a port": lambda path: f"http://seller.example:80{path}",
    "absolute form with a user": lambda path: f"http://user@seller.example{path}",
    "another scheme": lambda path: f"ftp://seller.example{path}",
    "a scheme alone": lambda path: f"x:{path}",
    "a scheme, no slash": lambda path: f"x:{path[1:]}",
    "a scheme, no host": lambda path: f"http:{path}",
    "an empty host": lambda path: f"http://{path}",
    "a query for a host": lambda path: f"http://x?{path}",
    "a fragment for a host": lambda path: f"http://x#{path}",
    "a scheme, encoded": lambda path: f"x%3A{path}",
    "no slash": lambda path: path[1:],
    "authority form": lambda path: f"//seller.example{path}",
    "a backslash": lambda path: f"\\{path[1:]}",
    "a space in front": lambda path: f"%20{path}",
    "a tab in front": lambda path: f"%09{path}",
    "a dot in front": lambda path: f".{path}",
    "a dot-dot in front": lambda path: f"..{path}",
    "an asterisk in front": lambda path: f"*{path}",
}
STACKS = [
    (shelf, server)
    for shelf in SHELVES
    for server in SERVERS
    if not (shelf in ON_ASYNCIO and "trio" in server)
]


@pytest.fixture(params=STACKS, ids=lambda stack: " on ".join(stack))
def stack(request: pytest.FixtureRequest) -> Generator[tuple[str, Content]]:
    shelf, server = request.param
    content = Content()
    app = guarded(SHELVES[shelf](content))
    with SERVERS[server](app) as url:
        yield url, content


def guarded(app: Any) -> PaywallMiddleware:
    return PaywallMiddleware(app, make_paywall(), offers={"/sold": "daily_report"}, refuse=["/closed"])


def test_no_form_of_a_target_leads_around_a_prefix(stack: tuple[str, Content]) -> None:
    url, content = stack
    port = int(url.rpartition(":")[2])
    targets = [form(path) for form in FORMS.values() for path in ("/sold/today", "/closed/today", "/priced")]
    loot = {target: exchange(port, request(target), quiet=0.02, patience=2.0) for target in targets}
    leaks = [target for target, got in loot.items() if content.found_in([got])]
    figures.count("targets that are no path", leaks, len(targets))
    assert leaks == []
    assert content.runs == 0


def test_ordinary_requests_are_answered(stack: tuple[str, Content]) -> None:
    """What is free is free, also in the absolute form that servers take apart, and what is sold is sold."""
    url, content = stack
    port = int(url.rpartition(":")[2])
    for target in ("/open/today", "/open/x:y", "/open/http://x/y"):
        assert status_of(exchange(port, request(target), patience=2.0)) == 200, target
    with httpx.Client(base_url=url, trust_env=False) as http:
        for path in ("/sold/today", "/priced"):
            unpaid = http.get(path)
            assert unpaid.status_code == 402
            proof = Wallet().pay(unpaid.headers["payment-required"])
            paid = http.get(path, headers={"PAYMENT-SIGNATURE": proof})
            assert (paid.status_code, content.mark("body") in paid.text) == (200, True)
        assert http.get("/closed/today").status_code == 403


SPELLINGS: dict[str, Callable[[str], str]] = {
    "a tab": lambda path: f"{path[:3]}%09{path[3:]}",
    "a carriage return": lambda path: f"{path[:3]}%0D{path[3:]}",
    "an encoded query": lambda path: f"{path}%3Fx",
    "an encoded fragment": lambda path: f"{path}%23/x",
    "a letter encoded twice": lambda path: f"/%25{ord(path[1]):x}{path[2:]}",
    "a tab encoded twice": lambda path: f"{path[:3]}%2509{path[3:]}",
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_page_that_takes_its_own_url_apart_gives_nothing_away(server: str) -> None:
    """`urlsplit` drops tabs and ends of lines, and ends a path at a question mark."""
    content = Content()

    async def anything(request: Request) -> Response:
        path: str = request.scope["path"]
        paths = (request.url.path, unquote(request.url.path), urlsplit(path).path)
        return PlainTextResponse(max((give(path, content) for path in paths), key=len))

    app = guarded(Starlette(routes=[Route("/{rest:path}", anything)]))
    with SERVERS[server](app) as url:
        port = int(url.rpartition(":")[2])
        targets = [spell(path) for spell in SPELLINGS.values() for path in ("/sold/today", "/closed/today")]
        loot = {target: exchange(port, request(target), quiet=0.02, patience=2.0) for target in targets}
        leaks = [target for target, got in loot.items() if content.found_in([got])]
        figures.count("targets that are read twice", leaks, len(targets))
        assert leaks == []
        assert content.runs == 0
        assert content.mark("body").encode() in exchange(port, request("/op%09en/today"), patience=2.0)


@pytest.mark.parametrize("root", ["/shop", "/shop/", "/so", "/", "/clos"])
def test_a_prefix_is_read_with_and_without_any_root_path(root: str) -> None:
    """Also with one that a path only begins with: `/so` is not where `/sold` is mounted."""
    content = Content()
    whole = [root.rstrip("/") + path for path in ("/sold", "/closed")]
    for sold, closed in (("/sold", "/closed"), whole):
        app = PaywallMiddleware(
            SHELVES["starlette"](content), make_paywall(), offers={sold: "daily_report"}, refuse=[closed]
        )
        client = TestClient(app, base_url="http://seller.example", root_path=root)
        paths = ["/sold/today", "/closed/today"]
        answers = [client.get(path) for path in paths]
        leaks = [path for path, got in zip(paths, answers, strict=True) if content.found_in([got.content])]
        figures.count("prefixes behind a root path", leaks, len(paths))
        assert [answer.status_code for answer in answers] == [402, 403]
        assert leaks == []
    assert content.runs == 0
