"""A market for tests: the example seller on a real server, in front of a really served emulator."""

import importlib.util
import itertools
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import TransactionDetail
from tests.servers.http import serving, serving_on_trio

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi" / "app.py"
SERVERS = {"asyncio": serving, "trio": serving_on_trio}

_fresh = itertools.count()


@dataclass(frozen=True)
class Market:
    """`seller` and `service` are URLs; `app` is the example's module."""

    seller: str
    service: str
    emulator: Emulator
    app: Any

    def runs(self, route: str) -> int:
        """How often the work of a route was done."""
        return int(self.app.WORKED.get(route, 0))

    def echoed(self) -> list[tuple[str, str]]:
        """The challenge of each 402 that led to a payment, and what the payer's proof says it was."""
        asked = list[str]()
        pairs = list[tuple[str, str]]()
        for call in self.emulator.calls("access"):
            if call.instructions is not None:
                asked.append(call.instructions["accepts"][0]["extra"]["challenge"])
            elif call.proof is not None:
                pairs.append((asked[-1], call.proof["accepted"]["extra"]["challenge"]))
        return pairs

    def transactions(self) -> list[TransactionDetail]:
        """What the service knows, oldest first."""
        with MerchantClient(TEST_KEY, self.service) as client:
            items = list(client.iter_transactions(order="oldest"))
            return [client.get_transaction(item.id) for item in items]


@contextmanager
def market(loop: str, environ: pytest.MonkeyPatch, app: Path = EXAMPLE) -> Generator[Market]:
    """Open on this kind of event loop until the block ends."""
    emulator = Emulator()
    with serve(emulator) as service:
        environ.setenv("FAREGATE_API_KEY", TEST_KEY)
        environ.setenv("FAREGATE_BASE_URL", service)
        module = loaded(app)
        server: AbstractContextManager[str] = SERVERS[loop](module.app)
        with server as seller:
            yield Market(seller, service, emulator, module)


def loaded(app: Path) -> Any:
    """The module, anew: its app has its own paywall and its own counts."""
    spec = importlib.util.spec_from_file_location(f"example_seller_{next(_fresh)}", app)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
