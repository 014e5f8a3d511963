"""Buyers of an application with the service inside: they repeat a payment until it has ended."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import httpx

from faregate.emulator import Wallet
from faregate.service.chain.abi import encode_topic
from faregate.system import system_clock
from faregate.x402.headers import find_settled_amount, find_settlement, parse_payment
from tests.crash.service.application import CONTENT, RUNS
from tests.crash.service.environment import MAXIMUM, PRICE
from tests.crash.service.sellers import BY_USE, Sale, Sellers, Times, draw_units, was_interrupted
from tests.support.chain import ChainPayer
from tests.support.lines import read_lines

_PAUSE: Final = 0.1
_KNOWN: Final = {200, 202, 402, 409, 500, 503}
_LOOK_SECONDS: Final = 3.0
"""For so long it is watched whether the work for a payment begins."""


class Buyers(Sellers):
    """Sells nothing itself: its threads buy of the application, and interfere as those of `Sellers` do."""

    def _sell(self, client: httpx.Client, kind: str, payer: ChainPayer, chance: random.Random) -> None:
        if kind == "emptied":
            payer = ChainPayer()
            self._mint(payer, PRICE)
        units = draw_units(chance) if kind in BY_USE else 0
        path = _name_request(kind, units)
        asked = self._request(client, path)
        if asked is None or asked.status_code != 402:
            return
        proof = Wallet(payer.private_key, clock=system_clock).pay(asked.headers["PAYMENT-REQUIRED"])
        now = time.monotonic()
        sale = Sale(kind, parse_payment(proof), proof, "", Times(now, now), units=units)
        with self._lock:
            self.sales.append(sale)
        if chance.random() < 0.5:
            threading.Thread(target=self._interfere_at_work, args=(sale, payer), daemon=True).start()
            self._buy(client, sale, path, None)
        else:
            self._buy(client, sale, path, payer)

    def _interfere_at_work(self, sale: Sale, payer: ChainPayer) -> None:
        """A stranger knows a payment only after it was authorized, so it waits for the work."""
        end = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < end and not self._give_up.wait(_PAUSE):
            if any(run["proof"] == sale.proof for run in read_lines(self.folder / RUNS)):
                self._interfere(sale, payer)
                return

    def _buy(self, client: httpx.Client, sale: Sale, path: str, payer: ChainPayer | None) -> None:
        """Ask until there is a result, or an answer that says that there is none to come."""
        while not self._give_up.is_set():
            asked_at = time.monotonic()
            answer = self._request(client, path, sale.proof)
            if answer is None:
                return
            sale.transaction_id = answer.headers.get("Faregate-Transaction") or sale.transaction_id
            if answer.status_code in (202, 503) or _is_in_progress(answer):
                if payer is not None and answer.status_code == 202:
                    self._interfere(sale, payer)
                    payer = None
                self._give_up.wait(_PAUSE)
                continue
            sale.ended = Times(asked_at, time.monotonic())
            sale.told = answer.status_code
            body = " ".join(answer.text.split())[:200]
            sale.last_answer = f"{system_clock():%H:%M:%S.%f}, {answer.headers.get('Server')}: {body}"
            if answer.status_code == 200:
                sale.status = "succeeded"
                proof = answer.headers.get("PAYMENT-RESPONSE", "")
                sale.transaction_hash = find_settlement(proof)[1]
                if (told := find_settled_amount(proof)) != (min(sale.units, MAXIMUM) or PRICE):
                    self.unexpected.append(f"{sale.units or 'no'} units, and a receipt for {told}")
                if CONTENT not in answer.text:
                    self.unexpected.append(f"200 without the result: {answer.text[:100]}")
            return

    def _request(self, client: httpx.Client, path: str, proof: str = "") -> httpx.Response | None:
        headers = {"PAYMENT-SIGNATURE": proof} if proof else {}
        while not self._give_up.is_set():
            try:
                answer = client.get(path, headers=headers)
            except httpx.TransportError as error:
                self._count(f"buy {type(error).__name__}")
                self._give_up.wait(_PAUSE)
                continue
            self._count(f"buy {answer.status_code}")
            is_away = time.monotonic() < self._environment.database_back_at
            if answer.status_code not in _KNOWN and not is_away:
                self.unexpected.append(f"{path} was answered {answer.status_code}: {answer.text[:200]}")
            if not proof and answer.status_code != 402:
                self._give_up.wait(_PAUSE)
                continue
            if CONTENT in answer.text and not answer.headers.get("PAYMENT-RESPONSE"):
                self.unexpected.append(f"a result without a proof of payment: {answer.status_code}")
            return answer
        return None

    def find_wrongs(self, rows: list[Any]) -> Iterator[tuple[str, str]]:
        """Compare what buyers got with the books, and what ran; give each sale its transaction."""
        by_payment = {(encode_topic(row.payer), row.nonce): row for row in rows}
        runs = Counter(run["transaction"] for run in read_lines(self.folder / RUNS))
        for transaction_id, times in runs.items():
            if times > 1:
                yield "work done twice", f"{transaction_id}: {times} times"
        for sale in list(self.sales):
            row = by_payment.get((encode_topic(sale.payment.payer), sale.payment.nonce))
            if row is None:
                self.sales.remove(sale)
                if sale.status or sale.transaction_id:
                    yield "told something else", f"{sale.transaction_id}: it is not in the books"
                continue
            sale.transaction_id = row.id
            # A stranger may settle the payment of work that is cut off: the buyer is not asked to pay again.
            if row.final_status == "succeeded" and sale.told != 200 and not was_interrupted(row):
                yield "charged, and no result", f"{row.id}, {sale.kind}: {_describe(sale, row)}"


def _describe(sale: Sale, row: Any) -> str:
    if not sale.told:
        return f"no answer; in the books: {row.final_status}, {row.outcome}"
    return f"answered {sale.told} ({sale.last_answer}); in the books: {row.final_status}, {row.outcome}"


def _name_request(kind: str, units: int) -> str:
    """Name what is bought: its path and query."""
    if units:
        return f"/usage?units={units}"
    path = "/short" if kind in ("short", "emptied") else "/long"
    return f"{path}?work=fails" if kind == "broken" else path


def _is_in_progress(answer: httpx.Response) -> bool:
    return answer.status_code == 409 and answer.json()["code"] == "payment_in_progress"
