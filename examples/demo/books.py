"""The end of the scenario: the seller reads the service's books, and they agree with the payer's."""

from collections import Counter

from faregate.merchant.client import AsyncMerchantClient
from faregate.merchant.models import Payer as KnownPayer
from faregate.merchant.models import TransactionDetail

from .payer import Payer
from .reporter import Reporter, money, short


async def read_the_books(tell: Reporter, payer: Payer, books: AsyncMerchantClient) -> None:
    """Transactions, payers and balances, through faregate's own client."""
    tell.step(
        "The seller checks the accounts", "Through faregate.merchant: all transactions, payers and sums."
    )
    transactions = [
        await books.get_transaction(one.id) async for one in books.iter_transactions(order="oldest")
    ]
    payers = [known async for known in books.iter_payers()]
    _transactions(tell, transactions)
    _payers(tell, payer, payers)
    _balances(tell, payer, transactions)


def _transactions(tell: Reporter, transactions: list[TransactionDetail]) -> None:
    tell.table(
        ["transaction", "status", "authorized", "settled", "receipt"],
        [
            (
                short(one.id),
                one.status or "-",
                money(one.authorized_atomic or 0),
                money(one.receipt.payment.settled_atomic, one.receipt.payment.asset) if one.receipt else "-",
                short(one.receipt.id) if one.receipt else "-",
            )
            for one in transactions
        ],
    )
    statuses = dict(Counter(one.status for one in transactions))
    tell.claim("four payments succeeded, one failed, none is open", statuses, {"succeeded": 4, "failed": 1})
    with_receipt = {one.id for one in transactions if one.receipt is not None}
    succeeded = {one.id for one in transactions if one.status == "succeeded"}
    tell.claim("those that succeeded have a receipt, and only those", with_receipt, succeeded)


def _payers(tell: Reporter, payer: Payer, known: list[KnownPayer]) -> None:
    tell.table(["payer", "identifier"], [(short(one.id), one.identifier or "-") for one in known])
    tell.claim("there is one payer: ours", [one.identifier for one in known], [payer.address])


def _balances(tell: Reporter, payer: Payer, transactions: list[TransactionDetail]) -> None:
    received = sum(one.settled_atomic or 0 for one in transactions)
    spent = sum(payer.receipts.values())
    tell.facts([("the seller received", money(received)), ("the payer spent, by its receipts", money(spent))])
    tell.claim("the payer paid what the seller received, to the unit", spent, received)
    hashes = sorted(one.transaction_hash for one in transactions if one.transaction_hash is not None)
    tell.claim(
        "each receipt is one settlement, and each settlement one receipt", hashes, sorted(payer.receipts)
    )
