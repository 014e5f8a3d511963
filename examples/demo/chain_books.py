"""What the chain says of payments, read with a client that is not faregate's."""

from dataclasses import dataclass
from typing import Any, Final

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from examples.chain.local import LocalChain
from faregate.merchant.models import TransactionDetail
from faregate.x402.tokens import Token

from .reporter import Reporter, money, short

_TRANSFER: Final = "0x" + keccak(text="Transfer(address,address,uint256)").hex()


@dataclass(frozen=True)
class Transfer:
    """Money that moved on the chain."""

    transaction_hash: str
    payer: str
    amount: int


def find_transfers(chain: LocalChain, token: Token, to: str) -> list[Transfer]:
    """Find every transfer of the token to this address, oldest first."""
    search = {
        "fromBlock": "0x0",
        "toBlock": "latest",
        "address": token.address,
        "topics": [_TRANSFER, None, "0x" + to.removeprefix("0x").lower().rjust(64, "0")],
    }
    logs: list[dict[str, Any]] = chain.call("eth_getLogs", search)
    return [
        Transfer(
            one["transactionHash"], to_checksum_address("0x" + one["topics"][1][-40:]), int(one["data"], 16)
        )
        for one in logs
    ]


def compare_books(
    tell: Reporter,
    chain: LocalChain,
    token: Token,
    pay_to: str,
    transactions: list[TransactionDetail],
    spent: dict[str, int],
) -> None:
    """Claim that chain, books and payers agree. `spent` is what the payers have receipts for, by hash."""
    moved = {one.transaction_hash: one for one in find_transfers(chain, token, pay_to)}
    succeeded = [one for one in transactions if one.status == "succeeded"]
    tell.table(
        ["books", "status", "settled", "chain transaction", "moved"],
        [_show(one, moved) for one in transactions],
    )
    tell.claim(
        "each payment in the books is one transfer, and each transfer one payment",
        sorted((str(one.transaction_hash), one.settled_atomic) for one in succeeded),
        sorted((one.transaction_hash, one.amount) for one in moved.values()),
    )
    tell.claim(
        "each receipt names the payer whose money moved",
        {one.transaction_hash: one.payer for one in succeeded},
        {one.transaction_hash: one.payer for one in moved.values()},
    )
    tell.claim(
        "the payers hold a receipt of each",
        sorted(spent.items()),
        sorted((one.transaction_hash, one.amount) for one in moved.values()),
    )
    balance = chain.get_balance(token, pay_to)
    books = sum(one.settled_atomic or 0 for one in transactions)
    tell.facts(
        [
            ("the seller's balance on the chain", money(balance)),
            ("settled, by the books", money(books)),
            ("spent, by the payers' receipts", money(sum(spent.values()))),
        ]
    )
    tell.claim("all three are equal, to the unit", (books, sum(spent.values())), (balance, balance))


def _show(one: TransactionDetail, moved: dict[str, Transfer]) -> tuple[str, ...]:
    transfer = moved.get(one.transaction_hash or "")
    return (
        short(one.id),
        one.status or "-",
        money(one.settled_atomic) if one.settled_atomic is not None else "-",
        short(one.transaction_hash) if one.transaction_hash else "-",
        money(transfer.amount) if transfer else "-",
    )
