"""Sellers who sell without pause; some payers cancel, some are emptied, some overtaken by strangers."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from examples.chain.token import encode_call

from faregate.emulator import Wallet
from faregate.system import system_clock
from faregate.x402.headers import parse_payment
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import PERMIT2
from tests.crash.service.environment import MAXIMUM, PRICE, SAFE_BEHIND, Environment
from tests.support.chain import USDC, ChainPayer, RpcRefusal, settle_with_log

KINDS: Final = {
    "good": 8,
    "short": 2,
    "cancelled": 3,
    "emptied": 3,
    "overtaken": 3,
    "logged": 2,
    "broken": 1,
    "used": 5,
    "revoked": 2,
}
"""How often each kind is sold.

`overtaken`: a stranger sends the same authorization; `logged`: in a transaction with a receipt of a megabyte;
`broken`: the work failed. `used` and `revoked` have a price that follows the use; the payer of the latter
cancels the nonce of Permit2.
"""
BY_USE: Final = ("used", "revoked")
_PAUSE: Final = 0.1
_SENDS: Final = 20
_FINAL: Final = ("succeeded", "failed")
_KNOWN: Final = {
    "access": {200, 402, 503},
    "complete": {200, 202, 404, 503},
    "read": {200, 404, 503},
    "list": {200, 503},
}
_LISTS: Final = ("/transactions", "/transactions?status=reconciling", "/payers", "/contracts", "/resources")


@dataclass
class Sale:
    """One payment as its seller saw it."""

    kind: str
    payment: SignedPayment
    proof: str
    transaction_id: str
    authorized: "Times"
    status: str = ""
    """The final one that the seller was told; empty if none."""
    transaction_hash: str | None = None
    ended: "Times | None" = None
    told: int = 0
    """The status of the last answer to a buyer (`tests.crash.service.buyers`)."""
    last_answer: str = ""
    """The time, the server and the beginning of its body."""
    units: int = 0
    """What was used, where the price follows the use."""
    is_unknown: bool = False
    """The service answered 404: a restore has lost the payment."""


@dataclass(frozen=True)
class Times:
    """When a request was begun, and when it was answered (monotonic)."""

    asked: float
    answered: float


class Sellers:
    """Several threads that sell until `stop`, and then finish what they have begun."""

    def __init__(self, environment: Environment, count: int, seed: int, kinds: Sequence[str]) -> None:
        self._environment, self._kinds = environment, kinds
        self.folder = Path()
        self._stop, self._give_up = threading.Event(), threading.Event()
        self.sales: list[Sale] = []
        self.refused = 0
        self.unexpected: list[str] = []
        self.answers: Counter[str] = Counter()
        self._revisions: dict[str, str] = {}
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._sell_on, args=(random.Random(f"{seed}-{number}"),), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no sale any more."""
        self._stop.set()

    def is_done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def give_up(self) -> None:
        self._give_up.set()
        for thread in self._threads:
            thread.join(30)

    def find_wrongs(self, rows: list[Any]) -> Iterator[tuple[str, str]]:
        """What their own records say is wrong, beside what the checker finds: nothing."""
        return iter(())

    def _sell_on(self, chance: random.Random) -> None:
        with httpx.Client(base_url=self._environment.url, trust_env=False, timeout=20) as client:
            payer = ChainPayer()
            self._send(lambda: self._environment.chain.approve_permit2(USDC, payer.address))
            self._mint(payer, 10**9)
            while not self._stop.is_set():
                kind = chance.choices(self._kinds, [KINDS[kind] for kind in self._kinds])[0]
                self._sell(client, kind, payer, chance)

    def _sell(self, client: httpx.Client, kind: str, payer: ChainPayer, chance: random.Random) -> None:
        if kind == "emptied":
            payer = ChainPayer()
            self._mint(payer, PRICE)
        sale = self._authorize(client, kind, payer, _name_resource(kind), chance)
        if sale is None:
            self.refused += 1
            return
        with self._lock:
            self.sales.append(sale)
        is_early = chance.random() < 0.5
        if is_early:
            self._interfere(sale, payer)
        self._ask(client, "list", "GET", chance.choice(_LISTS))
        self._ask_unreadably(client, kind)
        self._complete(client, sale, payer, None if is_early else chance)

    def _authorize(
        self, client: httpx.Client, kind: str, payer: ChainPayer, name: str, chance: random.Random
    ) -> Sale | None:
        body = self._build_request(client, name)
        asked = self._ask(client, "access", "POST", "/access", json=body)
        if asked is None or asked.status_code != 402:
            return None
        proof = Wallet(payer.private_key, clock=system_clock).pay(asked.headers["PAYMENT-REQUIRED"])
        begun = time.monotonic()
        allowed = self._ask(client, "access", "POST", "/access", proof, json=body)
        if allowed is None or allowed.status_code != 200:
            return None
        times = Times(begun, time.monotonic())
        sale = Sale(kind, parse_payment(proof), proof, allowed.json()["transaction_id"], times)
        sale.units = draw_units(chance) if kind in BY_USE else 0
        return sale

    def _ask_unreadably(self, client: httpx.Client, kind: str) -> None:
        """Bring what is no proof: it is looked up all the same, for an earlier version may have read it."""
        body = self._build_request(client, _name_resource(kind))
        self._ask(client, "access", "POST", "/access", "no proof", json=body)

    def _build_request(self, client: httpx.Client, name: str) -> dict[str, Any]:
        return {
            "revision_id": self._find_revision(client, name),
            "resource": {"url": f"https://seller.example/{name}", "mime_type": "text/plain"},
            "settlement_asset": "USDC",
        }

    def _find_revision(self, client: httpx.Client, name: str) -> str:
        with self._lock:
            if name in self._revisions:
                return self._revisions[name]
        found = self._ask(client, "list", "GET", "/contracts")
        assert found is not None
        schemas = found.json()["components"]["schemas"]
        with self._lock:
            self._revisions = {one["x-svc-resource-name"]: key for key, one in schemas.items()}
            return self._revisions[name]

    def _complete(
        self, client: httpx.Client, sale: Sale, payer: ChainPayer, chance: random.Random | None
    ) -> None:
        """Complete, and repeat that or read, until the payment has ended."""
        body: dict[str, Any] = {
            "revision_id": self._find_revision(client, _name_resource(sale.kind)),
            **_OUTCOMES["broken" if sale.kind == "broken" else "good"],
        }
        if sale.units:
            body["values"] = {"units": str(sale.units)}
        path, reads = f"/transactions/{sale.transaction_id}", False
        while not self._give_up.is_set():
            begun = time.monotonic()
            if reads:
                found = self._ask(client, "read", "GET", path)
            else:
                found = self._ask(client, "complete", "POST", f"{path}/complete", sale.proof, json=body)
            if chance is not None:
                self._interfere(sale, payer)
                chance = None
            if found is not None and found.status_code == 200 and found.json().get("status") in _FINAL:
                sale.status = found.json()["status"]
                sale.transaction_hash = found.json().get("transaction_hash")
                sale.ended = Times(begun, time.monotonic())
                return
            if found is not None and found.status_code == 404:
                sale.is_unknown = True
                return
            if found is not None and found.status_code in (200, 202):
                reads = not reads
            self._give_up.wait(_PAUSE)

    def _interfere(self, sale: Sale, payer: ChainPayer) -> None:
        chain = self._environment.chain
        if sale.kind == "cancelled":
            self._send(lambda: payer.cancel(chain, USDC, sale.payment.nonce))
        elif sale.kind == "revoked":
            word, bit = divmod(int(sale.payment.nonce), 256)
            call = encode_call("invalidateUnorderedNonces(uint256,uint256)", word, 1 << bit)
            self._send(lambda: chain.send_as(payer.address, PERMIT2, call))
        elif sale.kind == "overtaken":
            self._send(lambda: chain.settle(USDC, sale.payment))
        elif sale.kind == "logged":
            self._send(lambda: settle_with_log(chain, sale.payment))
        elif sale.kind == "emptied":
            self._send(lambda: chain.move(USDC, payer.address, "0x" + "77" * 20, PRICE))

    def _send(self, send: Callable[[], str]) -> None:
        """Send a transaction of somebody else, who may have to wait for a block first."""
        for _ in range(_SENDS):
            try:
                send()
            except RpcRefusal:
                self._count("a stranger's transaction was refused")
                self._give_up.wait(5 * _PAUSE)
            else:
                return

    def _ask(
        self,
        client: httpx.Client,
        operation: str,
        method: str,
        path: str,
        proof: str | None = None,
        json: Any = None,
    ) -> httpx.Response | None:
        """Ask until there is an answer that is not a request to come again; None after giving up."""
        headers = {"Authorization": f"Bearer {self._environment.key}"}
        if proof is not None:
            headers["PAYMENT-SIGNATURE"] = proof
        while not self._give_up.is_set():
            try:
                answer = client.request(method, f"/merchant/v1{path}", json=json, headers=headers)
            except httpx.TransportError as error:
                self._count(f"{operation} {type(error).__name__}")
                self._give_up.wait(_PAUSE)
                continue
            self._count(f"{operation} {answer.status_code}")
            if answer.status_code == 500 and time.monotonic() < self._environment.database_back_at:
                self._give_up.wait(_PAUSE)  # it went away while the request was under way
                continue
            if answer.status_code not in _KNOWN[operation]:
                self.unexpected.append(f"{operation} was answered {answer.status_code}: {answer.text[:200]}")
            if answer.status_code == 503:
                self._give_up.wait(_PAUSE)
                continue
            return answer
        return None

    def _mint(self, payer: ChainPayer, amount: int) -> None:
        """Give the payer money, and wait until it is in a block that no reorganisation removes."""
        chain = self._environment.chain
        while not self._give_up.is_set():
            if chain.get_balance(USDC, payer.address) < amount:
                self._send(lambda: chain.mint(USDC, payer.address, amount))
            for _ in range(30):
                if chain.get_balance(USDC, payer.address) >= amount:
                    break
                time.sleep(_PAUSE)
            safe = chain.head + SAFE_BEHIND
            while chain.head < safe and not self._give_up.wait(_PAUSE):
                pass
            # Without it the payment could not settle, and would be open until its authorization expires.
            if chain.get_balance(USDC, payer.address) >= amount:
                return

    def _count(self, what: str) -> None:
        with self._lock:
            self.answers[what] += 1


def draw_units(chance: random.Random) -> int:
    """Draw what is used: now and then it costs more than was authorized."""
    return chance.randint(1, MAXIMUM + MAXIMUM // 5)


def _name_resource(kind: str) -> str:
    if kind in BY_USE:
        return "Usage"
    return "Short" if kind in ("short", "emptied") else "Long"


_OUTCOMES: Final[dict[str, dict[str, Any]]] = {
    "good": {
        "outcome": "succeeded",
        "resource_execution": {
            "duration_ms": 1,
            "response_content_type": "text/plain",
            "response_size_bytes": 1,
            "response_status": 200,
        },
        "values": {},
    },
    "broken": {"outcome": "failed", "failure_code": "broken"},
}


def was_interrupted(row: Any) -> bool:
    """Whether the application died at work: that is not done again, and its payment is never sent."""
    return row.submitted_at is None and '"interrupted"' in (row.outcome or "")
