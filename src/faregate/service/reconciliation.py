"""Compare the books with the chain, in both directions: each payment, and each transfer to a seller.

A payment and a transfer belong together if they name the same token, payer and nonce: a token takes an
authorization once. The chain is read before the books, and a payment is in the books before it is sent. So
every transfer that was read has its row, if it is for a payment of these books.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, get_args

from faregate.rules.payments import PaymentRefused, PaymentSettled
from faregate.service.chain.majority_view import ChainView, NodesDisagree
from faregate.service.chain.received_transfers import (
    DisputedTransfer,
    ReceivedTransfer,
    find_block_at,
    get_block_time,
)
from faregate.service.chain.settlement_agreement import CONFIRM_SECONDS
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import (
    PaymentRow,
    find_creation,
    find_payment,
    list_real_payments,
    list_recipients,
)
from faregate.service.database.refunds import Refund, list_refunds
from faregate.service.database.types import to_datetime, to_microseconds
from faregate.service.payment_chain import LAG_SECONDS, PaymentChain
from faregate.service.refunds import RecordedRefunds
from faregate.x402.tokens import Environment, format_price

Kind = Literal["missing", "charged", "unpaid", "amount", "hash", "refund", "disputed", "foreign"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST_NAMED: Final = 1000
DISPUTE_SECONDS: Final = CONFIRM_SECONDS
"""How long nodes that disagree are asked again, about blocks that are not safe."""
_MOST_WAITING: Final = 10_000
"""How many transfers are kept in memory before the books are read for them."""
_END_OF_TIME: Final = 2**62


@dataclass(frozen=True, slots=True)
class Difference:
    """What books and chain do not agree on. `excess` is what the chain has beyond the books, atomic units.

    - missing: an authorization was used for a payment that the books do not have
    - charged: the books say that the payment failed, or that it was never completed; the chain has it. Or its
      seller found the work cut off, and the payment had settled already
    - unpaid: the books say that it was received; the chain does not have it, or does not prove that this
      payment used its authorization
    - amount: the chain has another amount
    - hash: it settled by another transaction than the books name
    - refund: a recorded refund that the chain does not have
    - disputed: no majority of the nodes gave the same answer
    - foreign: a transfer without an authorization. It is no payment, and `is_equal` ignores it
    """

    kind: Kind
    asset: str
    excess: int
    books: str
    chain: str
    account: int | None
    transaction: str | None = None
    transaction_hash: str | None = None

    def __str__(self) -> str:
        mark = "FOREIGN" if self.kind == "foreign" else "DIFFERENT"
        return f"{mark:<10}{self.transaction or self.transaction_hash}: {self.books}; {self.chain}"


@dataclass(slots=True)
class Reconciliation:
    """The result for one environment. Sums are atomic units by the token's symbol."""

    environment: Environment
    begin: datetime
    end: datetime
    last_block: int
    payments: int = 0
    open: int = 0
    differences: Counter[str] = field(default_factory=Counter[str])
    named: list[Difference] = field(default_factory=list[Difference])
    """The first of the differences, to be kept."""
    authorized: Counter[str] = field(default_factory=Counter[str])
    settled: Counter[str] = field(default_factory=Counter[str])
    refunded: Counter[str] = field(default_factory=Counter[str])
    """Not subtracted from the other sums: these count what was received."""
    on_chain: Counter[str] = field(default_factory=Counter[str])
    """What the books settled, and the excess of each difference, and payments that the books call failed, and
    that settled and were refunded in full."""
    excess: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """What the chain has beyond what was settled, by the kind of difference and the token's symbol."""

    @property
    def is_equal(self) -> bool:
        """Whether each payment and refund is the same in the books and on the chain, and none is disputed."""
        return not any(count for kind, count in self.differences.items() if kind != "foreign")

    def describe(self) -> dict[str, Any]:
        """Return the result for JSON."""
        assets = sorted(self.authorized | self.settled | self.refunded | self.on_chain)
        return {
            "environment": self.environment,
            "begin": self.begin.isoformat(),
            "end": self.end.isoformat(),
            "last_block": self.last_block,
            "payments": self.payments,
            "open": self.open,
            # As text: JSON readers round long numbers.
            "assets": {
                asset: {
                    "authorized_atomic": str(self.authorized[asset]),
                    "settled_atomic": str(self.settled[asset]),
                    "refunded_atomic": str(self.refunded[asset]),
                    "on_chain_atomic": str(self.on_chain[asset]),
                    "excess_atomic": {
                        kind: str(self.excess[kind, asset]) for kind in KINDS if self.excess[kind, asset]
                    },
                }
                for asset in assets
            },
            "differences": {kind: self.differences[kind] for kind in KINDS},
            "is_equal": self.is_equal,
        }

    def __str__(self) -> str:
        sums = "; ".join(
            f"{title} {_format_sums(amounts)}"
            for title, amounts in (
                ("authorized", self.authorized),
                ("settled", self.settled),
                ("refunded", self.refunded),
                ("on the chain", self.on_chain),
            )
            # Most sellers never refund anything.
            if title != "refunded" or amounts
        )
        kinds = ", ".join(self._describe_kind(kind) for kind in KINDS if self.differences[kind])
        payments = "1 payment" if self.payments == 1 else f"{self.payments} payments"
        return (
            f"{self.environment}, {self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC, to block "
            f"{self.last_block}: {payments}, {self.open} open; {sums}; "
            f"{f'differences: {kinds}' if kinds else 'no differences'}."
        )

    def _describe_kind(self, kind: Kind) -> str:
        """Write how many differences there are of a kind, and what they add to what was settled."""
        amounts = [
            f"{'-' if amount < 0 else '+'}{format_price(abs(amount), asset)}"
            for (of_kind, asset), amount in sorted(self.excess.items())
            if of_kind == kind and amount
        ]
        shown = f" ({', '.join(amounts)})" if amounts else ""
        return f"{self.differences[kind]} {kind}{shown}"


def _format_sums(amounts: Counter[str]) -> str:
    prices = [format_price(amount, asset) for asset, amount in sorted(amounts.items()) if amount]
    return " and ".join(prices) or "nothing"


class Reconciler:
    """Compares the payments of one environment. Raises `PaymentsUnavailable`."""

    def __init__(self, database: Database, chain: PaymentChain) -> None:
        self.database: Final = database
        self.chain: Final = chain

    def compare(self, since: datetime | None) -> Generator[Difference, None, Reconciliation]:
        """Compare what was created since this moment, or everything; yield each difference."""
        view, accounts = self.chain.open_view(), list(self.chain.stores)
        first = self._find_first_block(view, since, accounts)
        begin = since or to_datetime(get_block_time(view, first) * 1_000_000)
        end = to_datetime(view.head.timestamp * 1_000_000)
        result = Reconciliation(self.chain.environment, begin, end, view.head.number)
        created_from = 0 if since is None else to_microseconds(since)
        addresses = {store.account.pay_to for store in self.chain.stores.values()}
        addresses |= list_recipients(self.database, accounts, created_from)
        comparison = _Comparison(self, view, result)
        for page in self.chain.read_transfers(view, addresses, first, DISPUTE_SECONDS):
            for transfer in page.transfers:
                comparison.add_transfer(transfer)
            for disputed in page.disputed:
                comparison.add_dispute(disputed)
            if len(comparison.transfers) >= _MOST_WAITING:
                until = get_block_time(view, page.last) * 1_000_000
                yield from comparison.add_payments(self._list_payments(created_from, until))
                created_from = max(created_from, until)
        yield from comparison.add_payments(self._list_payments(created_from, _END_OF_TIME))
        yield from comparison.judge_rest()
        yield from comparison.judge_refunds(0 if since is None else to_microseconds(since))
        return result

    def find_payment(self, transfer: ReceivedTransfer) -> PaymentRow | None:
        """Find the payment that this transfer is for, whenever it was created."""
        if transfer.nonce is None:
            return None
        address = self.chain.get_address(transfer.asset)
        return find_payment(self.database, address, transfer.sender, transfer.nonce)

    def _find_first_block(self, view: ChainView, since: datetime | None, accounts: Sequence[int]) -> int:
        if since is not None:
            return find_block_at(view, since.timestamp() - LAG_SECONDS)
        # Not at the first payment: books that were restored from an older copy may lack earlier ones.
        created = find_creation(self.database, accounts)
        if created is None:
            return view.head.number
        return find_block_at(view, created / 1e6 - LAG_SECONDS)

    def _list_payments(self, created_from: int, until: int) -> Iterable[PaymentRow]:
        return list_real_payments(self.database, self.chain.stores, created_from, until)


class _Comparison:
    """Transfers and payments whose counterpart was not read yet."""

    def __init__(self, reconciler: Reconciler, view: ChainView, result: Reconciliation) -> None:
        self._reconciler, self._view, self._result = reconciler, view, result
        self._chain = reconciler.chain
        self.transfers: dict[tuple[str, str, str], ReceivedTransfer] = {}
        self._disputed: list[DisputedTransfer] = []
        self._foreign_transfers: list[ReceivedTransfer] = []
        self._settled_payments: dict[tuple[str, str, str], PaymentRow] = {}
        self._refunds = RecordedRefunds(
            refund for refund in list_refunds(reconciler.database, self._chain.stores) if refund.is_kept
        )

    def add_transfer(self, transfer: ReceivedTransfer) -> None:
        if self._refunds.has(transfer):
            return  # the payer is a seller, too, who paid back
        if transfer.nonce is None:
            self._foreign_transfers.append(transfer)
        else:
            self.transfers[transfer.asset, transfer.sender, transfer.nonce] = transfer

    def add_dispute(self, disputed: DisputedTransfer) -> None:
        if not self._refunds.has(disputed.transfer):  # it is compared as a refund
            self._disputed.append(disputed)

    def add_payments(self, payments: Iterable[PaymentRow]) -> Generator[Difference]:
        result = self._result
        for payment in payments:
            symbol = self._chain.get_symbol(payment.asset)
            result.payments += 1
            result.authorized[symbol] += payment.amount
            result.open += payment.finished_at is None
            if payment.status == "succeeded":
                result.settled[symbol] += payment.settled_amount
                result.on_chain[symbol] += payment.settled_amount
            transfer = self.transfers.pop(payment.authorization, None)
            if transfer is not None:
                yield from self._add(self._judge_with_refunds(payment, transfer, symbol))
            elif payment.status == "succeeded":
                self._settled_payments[payment.authorization] = payment

    def judge_rest(self) -> Generator[Difference]:
        """Judge what has no counterpart in what was read: by single questions to the books and the chain."""
        for disputed in self._disputed:
            yield from self._add(self._describe_dispute(disputed))
        for transfer in self._foreign_transfers:
            yield from self._add(self._describe_foreign(transfer))
        for transfer in self.transfers.values():
            yield from self._add(self._judge_transfer(transfer))
        for payment in self._settled_payments.values():
            yield from self._add(self._judge_settled_payment(payment))

    def judge_refunds(self, recorded_from: int) -> Generator[Difference]:
        """Look at each refund that was recorded since this moment."""
        for refund in self._refunds.kept:
            if refund.recorded_at >= recorded_from:
                symbol = self._chain.get_symbol(refund.asset)
                self._result.refunded[symbol] += refund.amount
                yield from self._add(self._judge_refund(refund, symbol))

    def _judge_refund(self, refund: Refund, symbol: str) -> Difference | None:
        kind: Kind = "refund"
        try:
            fault = self._refunds.find_fault(refund, self._chain, self._view)
        except NodesDisagree as error:
            kind, fault = "disputed", str(error)
        if fault is None:
            return None
        return Difference(
            kind,
            symbol,
            0,
            f"{format_price(refund.amount, symbol)} recorded as refunded by {refund.transaction_hash}",
            fault,
            refund.account,
            refund.transaction,
            refund.transaction_hash,
        )

    def _judge_with_refunds(
        self, payment: PaymentRow, transfer: ReceivedTransfer, symbol: str
    ) -> Difference | None:
        difference = _judge_pair(payment, transfer, symbol)
        if difference is None or difference.kind != "charged":
            return difference
        refunded = self._refunds.sum_of(payment)
        if refunded == transfer.value:
            # The chain shows what was received, and that it was paid back.
            self._result.on_chain[symbol] += difference.excess
            return None
        if refunded:
            return replace(difference, chain=f"{difference.chain}; {format_price(refunded, symbol)} refunded")
        return difference

    def _judge_transfer(self, transfer: ReceivedTransfer) -> Difference | None:
        symbol = self._chain.get_symbol(transfer.asset)
        payment = self._reconciler.find_payment(transfer)
        if payment is not None:
            # The payment was read with an earlier page of transfers, and may have settled since.
            self._settled_payments.pop(payment.authorization, None)
            return self._judge_with_refunds(payment, transfer, symbol)
        price = format_price(transfer.value, symbol)
        return Difference(
            "missing",
            symbol,
            transfer.value,
            f"not in the books: {price} to {transfer.to}",
            f"paid by {transfer.sender} with the authorization {transfer.nonce}",
            self._find_account(transfer),
            transaction_hash=transfer.transaction_hash,
        )

    def _describe_foreign(self, transfer: ReceivedTransfer) -> Difference:
        symbol = self._chain.get_symbol(transfer.asset)
        return Difference(
            "foreign",
            symbol,
            transfer.value,
            f"no payment: {format_price(transfer.value, symbol)} to {transfer.to}",
            f"moved by {transfer.sender} without an authorization",
            self._find_account(transfer),
            transaction_hash=transfer.transaction_hash,
        )

    def _describe_dispute(self, disputed: DisputedTransfer) -> Difference:
        transfer = disputed.transfer
        symbol = self._chain.get_symbol(transfer.asset)
        payment = self._reconciler.find_payment(transfer)
        price = format_price(transfer.value, symbol)
        if payment is None:
            books, account = f"not in the books: {price} to {transfer.to}", self._find_account(transfer)
            identifier = None
        else:
            # It is judged here, and not once more by itself.
            self._settled_payments.pop(payment.authorization, None)
            books, account, identifier = (
                f"{price}, {payment.status} in the books",
                payment.account,
                payment.id,
            )
        return Difference(
            "disputed", symbol, 0, books, str(disputed), account, identifier, transfer.transaction_hash
        )

    def _find_account(self, transfer: ReceivedTransfer) -> int | None:
        """Find a seller who is paid at this address."""
        stores = self._chain.stores.items()
        return next(
            (account for account, store in stores if store.account.pay_to.lower() == transfer.to), None
        )

    def _judge_settled_payment(self, payment: PaymentRow) -> Difference | None:
        """Judge a payment that no log showed: its transfer is older than what was read, or it is gone."""
        symbol = self._chain.get_symbol(payment.asset)
        books = (
            f"{format_price(payment.settled_amount, symbol)}, succeeded in the books by "
            f"{payment.transaction_hash}"
        )
        match self._chain.look(payment):
            case PaymentSettled(transaction_hash=settled_by, amount=amount):
                if amount not in (None, payment.settled_amount):
                    excess, price = amount - payment.settled_amount, format_price(amount, symbol)
                    return _describe(payment, "amount", symbol, excess, books, f"{price} by {settled_by}")
                if settled_by in (payment.transaction_hash, payment.settled_again):
                    return None
                return _describe(payment, "hash", symbol, 0, books, f"settled on the chain by {settled_by}")
            case PaymentRefused(reason=reason):
                chain = f"can never settle: {reason}"
            case _:
                try:
                    is_unused = self._chain.is_unused(payment)
                except NodesDisagree as error:
                    return _describe(payment, "disputed", symbol, 0, books, str(error))
                if is_unused is None:
                    return None
                chain = "not on the chain: the authorization is unused" if is_unused else "not proven"
        return _describe(payment, "unpaid", symbol, -payment.settled_amount, books, chain)

    def _add(self, difference: Difference | None) -> Generator[Difference]:
        if difference is not None:
            self._result.differences[difference.kind] += 1
            self._result.on_chain[difference.asset] += difference.excess
            self._result.excess[difference.kind, difference.asset] += difference.excess
            if len(self._result.named) < MOST_NAMED:
                self._result.named.append(difference)
            yield difference


def _judge_pair(payment: PaymentRow, transfer: ReceivedTransfer, symbol: str) -> Difference | None:
    """Judge a payment by the transfer that used its authorization."""
    transaction_hash = transfer.transaction_hash
    price, books = format_price(transfer.value, symbol), format_price(payment.settled_amount, symbol)
    if payment.status == "succeeded":
        is_exact = transfer.value == payment.settled_amount and payment.is_right_amount
        if not is_exact or transfer.to != payment.authorized_to:
            excess = transfer.value - payment.settled_amount
            text = f"{books}, succeeded in the books"
            return _describe(
                payment, "amount", symbol, excess, text, f"{price} to {transfer.to} by {transaction_hash}"
            )
        if transaction_hash not in (payment.transaction_hash, payment.settled_again):
            text = f"{books}, succeeded in the books by {payment.transaction_hash}"
            return _describe(payment, "hash", symbol, 0, text, f"settled on the chain by {transaction_hash}")
        if payment.submitted_at is not None:
            return None
        text = f"{books}, succeeded in the books, and its work was cut off"
        return _describe(payment, "charged", symbol, 0, text, f"settled on the chain by {transaction_hash}")
    # A worker ends what is submitted and open, or an operator if it is parked.
    if payment.submitted_at is not None and payment.finished_at is None:
        return None
    text = f"{books}, {payment.status} in the books"
    return _describe(
        payment, "charged", symbol, transfer.value, text, f"settled on the chain by {transaction_hash}"
    )


def _describe(payment: PaymentRow, kind: Kind, asset: str, excess: int, books: str, chain: str) -> Difference:
    return Difference(
        kind, asset, excess, books, chain, payment.account, payment.id, payment.transaction_hash
    )
