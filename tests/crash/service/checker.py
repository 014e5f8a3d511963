"""Compare the books with the chain, both ways, and with what sellers were told."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from examples.chain.facilitator import GAS_KEYS
from sqlalchemy import select

from faregate.payments.abi import encode_topic, hash_event
from faregate.selfhosted.database.authorization import find_uses
from faregate.selfhosted.database.clock import Stamps
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.schema import gas_accounts, transactions
from faregate.system import system_clock
from faregate.x402.eip712 import derive_address
from tests.crash.service.environment import PRICE, Environment
from tests.crash.service.sellers import Sale
from tests.support.chain import USDC
from tests.support.waiting import eventually

_USED: Final = hash_event("AuthorizationUsed(address,bytes32)")
_TRANSFER: Final = hash_event("Transfer(address,address,uint256)")
WRONGS: Final = (
    *("charged, called failed", "not charged, called succeeded", "another hash", "used twice"),
    *("not in the books", "another sum", "left open", "still reserved", "told something else"),
    *("good, but failed", "gap in the gas nonces", "unexpected answer", "ended by itself"),
)


@dataclass(frozen=True)
class Used:
    """An authorization that the chain took, and whether the right transfer follows it."""

    payer: str
    nonce: str
    transaction_hash: str
    is_exact: bool


class Checker:
    """Finds what is wrong, each as one of `WRONGS` with what it is about."""

    def __init__(self, environment: Environment, sales: Sequence[Sale]) -> None:
        self._environment, self._sales = environment, sales
        self._database = Database(environment.settings["database"], pool_size=1)
        self.found: list[tuple[str, str]] = []

    def run(self) -> list[tuple[str, str]]:
        try:
            rows, used = self._read_rows(), self._read_used()
            self._compare(rows, used)
            self._compare_sales(rows)
            self._check_sum(rows)
            self._check_reserved(rows)
            if self._environment.is_direct:
                self._check_gas()
        finally:
            self._database.close()
        return self.found

    def _read_rows(self) -> list[Any]:
        with self._database.read() as connection:
            return list(connection.execute(select(transactions)).all())

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
        return used

    def _is_exact(self, log: Any, payer: str) -> bool:
        topics = [_TRANSFER, payer, encode_topic(self._environment.pay_to.lower())]
        return log is not None and log["topics"] == topics and int(log["data"], 16) == PRICE

    def _compare(self, rows: Sequence[Any], used: Sequence[Used]) -> None:
        on_chain = {(one.payer, one.nonce): one for one in used}
        for key, times in Counter((one.payer, one.nonce) for one in used).items():
            if times > 1:
                self._tell("used twice", str(key))
        in_books = {(encode_topic(row.payer), row.nonce): row for row in rows}
        for key in on_chain.keys() - in_books.keys():
            self._tell("not in the books", str(key))
        for key, row in in_books.items():
            self._compare_one(row, on_chain.get(key))

    def _compare_one(self, row: Any, taken: Used | None) -> None:
        if row.finished_at is None and row.submitted_at is not None:
            self._tell("left open", f"{row.id}: {row.attempts} attempts")
        if row.final_status == "failed" and taken is not None and row.submitted_at is not None:
            self._tell("charged, called failed", row.id)
        if row.final_status == "succeeded":
            if taken is None or not taken.is_exact:
                self._tell("not charged, called succeeded", row.id)
            elif taken.transaction_hash != row.transaction_hash:
                self._tell("another hash", row.id)

    def _compare_sales(self, rows: Sequence[Any]) -> None:
        by_id = {row.id: row for row in rows}
        for sale in self._sales:
            row = by_id.get(sale.transaction_id)
            told = (sale.status, sale.transaction_hash)
            if row is None or (sale.status and told != (row.final_status, row.transaction_hash)):
                self._tell("told something else", f"{sale.transaction_id}: {told}")
            elif row.final_status == "failed" and sale.kind in ("good", "overtaken", "logged"):
                self._tell("good, but failed", f"{sale.transaction_id}, {sale.kind}")

    def _check_sum(self, rows: Sequence[Any]) -> None:
        booked = sum(int(row.amount) for row in rows if row.final_status == "succeeded")
        received = self._environment.chain.get_balance(USDC, self._environment.pay_to)
        if booked != received:
            self._tell("another sum", f"{booked} in the books, {received} received")

    def _check_reserved(self, rows: Sequence[Any]) -> None:
        now = Stamps(self._database, system_clock).now()
        latest = {sale.payment.payer: sale.payment for sale in self._sales}
        submitted = {row.payer for row in rows if row.submitted_at is not None or row.outcome is not None}
        for payer in submitted & latest.keys():
            account, payment = rows[0].account, latest[payer]
            reserved = find_uses(self._database, account, USDC.address, payment, now, now).reserved
            given_up = sum(int(row.amount) for row in rows if row.payer == payer and row.outcome is None)
            if reserved > given_up:
                self._tell("still reserved", f"{reserved} of {payer}")

    def _check_gas(self) -> None:
        mined, in_books = read_gas_nonces(self._environment, self._database)
        if mined != in_books:
            self._tell("gap in the gas nonces", f"{mined} mined, {in_books} is next in the books")

    def _tell(self, wrong: str, what: str) -> None:
        self.found.append((wrong, what))


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
