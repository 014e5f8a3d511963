"""One application under attack: how it is built and served, and an attacker in front of it.

A stack joins with a builder in one of the modules of `sites` and a line in the table there.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.paywall import Paywall
from tests.attacks.content import EVERYWHERE, Content
from tests.servers.http import serving

Build = Callable[[Paywall, Content], Any]
Serve = Callable[[Any], AbstractContextManager[str]]


def on_uvicorn(app: Any) -> AbstractContextManager[str]:
    """Serve the app with its lifespan; gives the URL."""
    return serving(app, lifespan="auto")


@dataclass(frozen=True)
class Site:
    """A stack. `build` makes the application; `writes` names the places its paid handler can write to.

    The application answers:

    - `/sold`: paid. The handler leaves `Content.mark(place)` in every place of `writes`. With `?then=raise`
      it raises afterwards, with `?then=404` its answer has that status.
    - `/start`: free. Puts a list of one word at `known` in the session, where the stack has a session.
    - `/me`: free. Answers with all that is in the session; with `?stores` also with what is in any store
      behind it, whosever it is.
    """

    name: str
    build: Build
    writes: frozenset[str] = EVERYWHERE
    serve: Serve = on_uvicorn


@dataclass
class Attacker:
    """Someone with a browser: keeps cookies, and everything that was ever received in `loot`."""

    http: httpx.Client
    loot: list[bytes] = field(default_factory=list)

    def get(self, path: str, **headers: str) -> httpx.Response:
        response = self.http.get(path, headers=headers)
        self.loot.append(b"\n".join(b"%b: %b" % pair for pair in response.headers.raw))
        self.loot.append(response.content)
        return response

    def pay(self, path: str, wallet: Wallet) -> httpx.Response:
        """Ask what it costs, and come back with a payment of this wallet."""
        unpaid = self.get(path)
        assert unpaid.status_code == 402, (unpaid.status_code, unpaid.text)
        return self.get(path, **{"PAYMENT-SIGNATURE": wallet.pay(unpaid.headers["payment-required"])})

    def look_around(self, *, stores: bool = True) -> None:
        """Read what the site now knows of this browser, and of all others."""
        self.get("/me?stores" if stores else "/me")


@dataclass
class Target:
    """A site that is up."""

    site: Site
    content: Content
    url: str

    @contextmanager
    def attacker(self) -> Generator[Attacker]:
        limits = httpx.Limits(max_keepalive_connections=0)  # a server may close after an error
        with httpx.Client(base_url=self.url, trust_env=False, timeout=20, limits=limits) as http:
            yield Attacker(http)


def make_paywall(
    emulator: Emulator | None = None, around: Callable[[Any], Any] = lambda one: one, **settings: Any
) -> Paywall:
    """A paywall whose service is an emulator in this process. `around` may change its transport."""
    transport: Any = around(EmbeddedTransport(emulator or Emulator()))
    return Paywall(
        base_url="http://service.example",
        api_key="svc_test_emulator",
        public_url="https://seller.example",
        environ={},
        settle_wait=0,
        transport=transport,
        **settings,
    )


@contextmanager
def attacked(site: Site, paywall: Paywall | None = None) -> Generator[Target]:
    """Serve the site, with content of its own."""
    content = Content()
    with site.serve(site.build(paywall or make_paywall(), content)) as url:
        yield Target(site, content, url)
