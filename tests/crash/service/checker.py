"""Compare the books with the chain, both ways, with what sellers were told, and with what the audit names.

A restore may lose what was written since the copy, and a reorganisation what has succeeded. Both leave
differences between books and chain. Each of them must be one that such an event explains, and the audit must
name it, and nothing else.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from examples.chain.facilitator import GAS_KEYS
from sqlalchemy import select

from faregate.core.claim_types import find_resumed
from faregate.service.chain.abi import encode_topic, hash_event
from faregate.service.database.authorization import find_uses
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.schema import gas_accounts, loose_payments, transactions
from faregate.system import system_clock
from faregate.x402.eip712 import derive_address
from faregate.x402.permit2 import UPTO_PROXY
from tests.crash.service.audit import Audit
from tests.crash.service.environment import MAXIMUM, PRICE, Environment
from tests.crash.service.sellers import Sale, Times, was_interrupted
from tests.support.chain import USDC
from tests.support.waiting import eventually

_USED: Final = hash_event("AuthorizationUsed(address,bytes32)")
_TRANSFER: Final = hash_event("Transfer(address,address,uint256)")
WRONGS: Final = (
    *("charged, called failed", "not charged, called succeeded", "another hash", "used twice"),
    "another amount",
    *("not in the books", "left open", "still reserved", "told something else"),
    *("good, but failed", "good, but lost", "still loose", "gap in the gas nonces"),
    *("not named by the audit", "named by the audit alone", "another sum in the audit", "no audit"),
    *("unexpected answer", "ended by itself", "work done twice", "charged, and no result"),
)
_SURE: Final = ("good", "overtaken", "logged", "used")
"""Kinds of payments that settle, whatever happens: nobody cancels them, and they are valid for an hour."""


@dataclass(frozen=True)
class Used:
    """An authorization that the chain took, and whether the right transfer follows it.

    `amount` is what it moved of a part of an authorization, 0 of a whole one.
    """

    payer: str
    nonce: str
    transaction_hash: str
    is_exact: bool
    amount: int = 0


class Checker:
    """Finds what is wrong, each as one of `WRONGS` with what it is about."""

    def __init__(self, environment: Environment, sales: Sequence[Sale], audit: Audit) -> None:
        self._environment, self._sales, self._audit = environment, sales, audit
        self._kinds = {sale.transaction_id: sale.kind for sale in sales}
        self._database = Database(environment.settings["database"], pool_size=1)
        self.found: list[tuple[str, str]] = []

    def run(self) -> list[tuple[str, str]]:
        try:
            rows, used = self.read_rows(), self._read_used()
            self._compare(rows, used)
            self._compare_sales(rows)
            self._check_audit(rows, used)
            self._check_reserved(rows)
            if self._environment.is_direct:
                self._check_gas()
        finally:
            self._database.close()
        return self.found

    def read_rows(self) -> list[Any]:
        """Read all transactions of the books."""
        again = loose_payments.c
        asked = select(transactions, again.transaction_hash.label("settled_again")).outerjoin(
            loose_payments,
            (again.account == transactions.c.account) & (again.transaction == transactions.c.id),
        )
        with self._database.read() as connection:
            return list(connection.execute(asked).all())

    def _read_used(self) -> list[Used]:
        """Every authorization to our recipient that the chain took."""
        asked = {"address": USDC.address, "fromBlock": "0x0", "toBlock": "latest"}
        logs = self._environment.chain.call("eth_getLogs", asked)
        at = {(log["transactionHash"], int(log["logIndex"], 16)): log for log in logs}
        used: list[Used] = []
        for log in logs:
            if log["topics"][0] != _USED:
                continue
            after = at.get((log["transactionHash"], int(log["logIndex"], 16) + 1))
            payer = log["topics"][1]
            used.append(Used(payer, log["topics"][2], log["transactionHash"], self._is_exact(after, payer)))
        return [*used, *self._read_parts(logs)]

    def _read_parts(self, logs: Sequence[Any]) -> Iterator[Used]:
        """Every part of an authorization that our recipient got: the nonce is in the call of the proxy."""
        chain, to = self._environment.chain, encode_topic(self._environment.pay_to.lower())
        proxy = {"address": UPTO_PROXY, "fromBlock": "0x0", "toBlock": "latest"}
        settled = {log["transactionHash"] for log in chain.call("eth_getLogs", proxy)}
        for log in logs:
            is_transfer = log["topics"][0] == _TRANSFER and log["topics"][2:] == [to]
            if is_transfer and log["transactionHash"] in settled:
                data = chain.call("eth_getTransactionByHash", log["transactionHash"])["input"][10:]
                words = [int(data[begin : begin + 64], 16) for begin in range(0, 6 * 64, 64)]
                _, maximum, nonce, _, amount, payer = words
                is_right = maximum == MAXIMUM and log["topics"][1] == f"0x{payer:064x}"
                is_exact = is_right and amount == int(log["data"], 16)
                yield Used(log["topics"][1], str(nonce), log["transactionHash"], is_exact, amount)

    def _is_exact(self, log: Any, payer: str) -> bool:
        topics = [_TRANSFER, payer, encode_topic(self._environment.pay_to.lower())]
        return log is not None and log["topics"] == topics and int(log["data"], 16) == PRICE

    def _compare(self, rows: Sequence[Any], used: Sequence[Used]) -> None:
        on_chain = {(one.payer, one.nonce): one for one in used}
        for key, times in Counter((one.payer, one.nonce) for one in used).items():
            if times > 1:
                self._tell("used twice", str(key))
        in_books = {(encode_topic(row.payer), row.nonce): row for row in rows}
        lost = {
            (encode_topic(sale.payment.payer), sale.payment.nonce)
            for sale in self._sales
            if self._may_be_undone(sale.authorized)
        }
        for key in on_chain.keys() - in_books.keys() - lost:
            self._tell("not in the books", str(key))
        for key, row in in_books.items():
            self._compare_one(row, on_chain.get(key))

    def _compare_one(self, row: Any, taken: Used | None) -> None:
        if row.finished_at is None and row.submitted_at is not None:
            self._tell("left open", f"{row.id}: {row.attempts} attempts")
        if row.final_status == "failed" and taken is not None and row.submitted_at is not None:
            self._tell("charged, called failed", row.id)
        if row.final_status == "succeeded":
            if taken is None and self._environment.loosened:
                if (kind := self._kinds.get(row.id)) in _SURE:
                    self._tell("good, but lost", f"{row.id}, {kind}")
            elif taken is None or not taken.is_exact:
                self._tell("not charged, called succeeded", row.id)
            elif taken.amount != int(row.used_amount or 0):
                self._tell("another amount", f"{row.id}: {row.used_amount}, {taken.amount} on the chain")
            elif taken.transaction_hash not in (row.transaction_hash, row.settled_again):
                known = f"{row.transaction_hash} in the books, then {row.settled_again}"
                self._tell("another hash", f"{row.id}: {known}; {taken.transaction_hash} on the chain")

    def _may_be_undone(self, times: Times) -> bool:
        return self._environment.copies.may_undo(times.asked, times.answered)

    def _compare_sales(self, rows: Sequence[Any]) -> None:
        by_id = {row.id: row for row in rows}
        for sale in self._sales:
            row = find_serving(by_id, by_id.get(sale.transaction_id))
            told = (sale.status, sale.transaction_hash)
            if row is None:
                if not self._may_be_undone(sale.authorized):
                    self._tell("told something else", f"{sale.transaction_id}: {told}, and it is lost")
            elif sale.is_unknown:
                self._tell("told something else", f"{sale.transaction_id}: it is unknown")
            elif sale.status and not self._is_as_told(sale, row):
                self._tell("told something else", f"{sale.transaction_id}: {told}")
            elif sale.units and row.final_status == "succeeded":
                self._compare_amount(sale, row)
            is_failed = row is not None and row.final_status == "failed" and sale.kind in _SURE
            if is_failed and not (self._environment.is_inside and was_interrupted(row)):
                self._tell("good, but failed", f"{sale.transaction_id}, {sale.kind}")

    def _compare_amount(self, sale: Sale, row: Any) -> None:
        if row.used_amount != min(sale.units, MAXIMUM):
            self._tell("another amount", f"{row.id}: {row.used_amount} of {sale.units} units")

    def _is_as_told(self, sale: Sale, row: Any) -> bool:
        """Whether the end is the one that the seller was told, or came instead of one that a restore undid.

        The chain may have lost the transaction meanwhile. Then the payment settles by another one, or fails
        if it cannot settle any more.
        """
        if (sale.status, sale.transaction_hash) == (row.final_status, row.transaction_hash):
            return True
        ends = {None, sale.status, "failed"} if self._environment.loosened else {None, sale.status}
        return row.final_status in ends and sale.ended is not None and self._may_be_undone(sale.ended)

    def _check_audit(self, rows: Sequence[Any], used: Sequence[Used]) -> None:
        if self._audit.failure:
            self._tell("no audit", self._audit.failure)
            return
        expected = set(list_differences(rows, used))
        for kind, what in sorted(expected - self._audit.named):
            self._tell("not named by the audit", f"{kind} {what}")
        for kind, what in sorted(self._audit.named - expected):
            self._tell("named by the audit alone", f"{kind} {what}")
        booked = sum(int(row.used_amount or row.amount) for row in rows if row.final_status == "succeeded")
        received = self._environment.chain.get_balance(USDC, self._environment.pay_to)
        sums = self._audit.result["assets"].get("USDC", {"settled_atomic": "0", "on_chain_atomic": "0"})
        if (sums["settled_atomic"], sums["on_chain_atomic"]) != (str(booked), str(received)):
            self._tell("another sum in the audit", f"{booked} in the books, {received} received: {sums}")

    def _check_reserved(self, rows: Sequence[Any]) -> None:
        now = Stamps(self._database, system_clock).now()
        latest = {sale.payment.payer: sale.payment for sale in self._sales}
        submitted = {row.payer for row in rows if row.submitted_at is not None or row.outcome is not None}
        for payer in submitted & latest.keys():
            account, payment = rows[0].account, latest[payer]
            reserved = find_uses(
                self._database, account, USDC.address, payment, now, now, on_chain=True
            ).reserved
            given_up = sum(int(row.amount) for row in rows if row.payer == payer and row.outcome is None)
            if reserved > given_up:
                self._tell("still reserved", f"{reserved} of {payer}")

    def _check_gas(self) -> None:
        mined, in_books = read_gas_nonces(self._environment, self._database)
        if mined != in_books:
            self._tell("gap in the gas nonces", f"{mined} mined, {in_books} is next in the books")

    def _tell(self, wrong: str, what: str) -> None:
        self.found.append((wrong, what))


def find_serving(by_id: Mapping[str, Any], row: Any) -> Any:
    """Return the row that served this one's payer, who was not charged for this one; else the row itself."""
    outcome: dict[str, Any] = json.loads(row.outcome) if row is not None and row.outcome else {}
    resumed = find_resumed(outcome.get("failure_code", ""))
    return by_id.get(resumed, row)


def list_differences(rows: Sequence[Any], used: Sequence[Used]) -> Iterator[tuple[str, str]]:
    """List what the audit must name: the kind of each difference, and whose it is."""
    on_chain = {(one.payer, one.nonce): one for one in used}
    in_books = {(encode_topic(row.payer), row.nonce): row for row in rows}
    for key in on_chain.keys() - in_books.keys():
        yield "missing", on_chain[key].transaction_hash
    for key, row in in_books.items():
        taken = on_chain.get(key)
        if row.final_status == "succeeded":
            if taken is None:
                yield "unpaid", row.id
            elif taken.transaction_hash not in (row.transaction_hash, row.settled_again):
                yield "hash", row.id
            elif row.submitted_at is None:
                yield "charged", row.id
        elif taken is not None and (row.finished_at is not None or row.submitted_at is None):
            yield "charged", row.id


def read_gas_nonces(environment: Environment, database: Database) -> tuple[int, int]:
    """Return the next nonce of the gas account, as the chain has it and as the books have it."""
    address = derive_address(bytes.fromhex(GAS_KEYS[1][2:]))
    with database.read() as connection:
        in_books = connection.execute(
            select(gas_accounts.c.next_nonce).where(gas_accounts.c.address == address.lower())
        ).scalar_one_or_none()
    mined = int(environment.chain.call("eth_getTransactionCount", address, "latest"), 16)
    return mined, mined if in_books is None else in_books


def wait_for_transfers(environment: Environment) -> None:
    """Wait until each transfer is in a block: one that only fills a gap in the gas nonces may be late."""
    database = Database(environment.settings["database"], pool_size=1)
    try:
        eventually(lambda: len(set(read_gas_nonces(environment, database))) == 1)
    finally:
        database.close()
