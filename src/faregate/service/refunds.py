"""Refunds and the chain: find the transfer of one before it is recorded, and compare those that are."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from faregate.errors import ConfigurationError
from faregate.rules.payments import PaymentSettled
from faregate.service.chain.majority_view import ChainView
from faregate.service.chain.received_transfers import ReceivedTransfer
from faregate.service.database.accounts import AccountRow
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import PaymentRow, find_payment
from faregate.service.database.refunds import Refund, list_refunds_of, record_refund
from faregate.service.payment_chain import PaymentChain

_HOW: Final = "name the address that sent it with --from, if that is not the seller's pay_to"


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """A refund as an operator reports it. `sender` is None for the seller's own address.

    `position` counts from 1 among the transfers to the payer in the transaction; None if there is one only.
    """

    payment: PaymentRow
    transaction_hash: str
    sender: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class RefundRecorder:
    """Records refunds of payments on one chain. Raises `ConfigurationError`, `PaymentsUnavailable`."""

    database: Database
    chain: PaymentChain
    accounts: tuple[AccountRow, ...]

    def record(self, request: RefundRequest, now: int) -> Refund:
        """Record the refund if the chain proves it, in a block that is safe."""
        payment, view = request.payment, self.chain.open_view()
        settled = self._find_settled(payment)
        senders = self._list_senders(request)
        position, transfer = self._choose(view, request, senders)
        self._check_is_refund(payment, transfer, view.safe.number)
        return record_refund(self.database, (payment.account, payment.id), transfer, position, settled, now)

    def _find_settled(self, payment: PaymentRow) -> int:
        """Return what was received for the payment, in atomic units."""
        if payment.from_block is None:
            raise ConfigurationError(f"{payment.id} is simulated: nothing was received, or can be refunded.")
        if payment.status == "succeeded":
            return payment.settled_amount
        # Its seller reported a failure, or never completed it, and it settled all the same.
        end = self.chain.look(payment)
        if isinstance(end, PaymentSettled):
            return payment.authorized_value if end.amount is None else end.amount
        raise ConfigurationError(
            f"{payment.id} is {payment.status}, and the chain does not prove that it settled: nothing was "
            "received that could be refunded."
        )

    def _list_senders(self, request: RefundRequest) -> set[str]:
        """List the addresses from which a refund of this seller comes, in lower case."""
        own_addresses = {
            account.pay_to.lower() for account in self.accounts if account.id == request.payment.account
        }
        if request.sender is None:
            # Where it was paid to; the seller's address may have changed since.
            return own_addresses | {request.payment.authorized_to}
        sender = request.sender.lower()
        others = {
            account.pay_to.lower(): account.name
            for account in self.accounts
            if account.pay_to.lower() not in own_addresses
        }
        if sender in others:
            raise ConfigurationError(f"--from {request.sender} is the address of {others[sender]}.")
        return {sender}

    def _choose(
        self, view: ChainView, request: RefundRequest, senders: set[str]
    ) -> tuple[int, ReceivedTransfer]:
        """Choose the transfer, and its position in the transaction."""
        payment, transaction_hash = request.payment, request.transaction_hash
        transfers = self.chain.list_transfers_of(view, payment.asset, transaction_hash, payment.payer)
        if transfers is None:
            raise ConfigurationError(
                f"{transaction_hash} is in no block of {self.chain.environment}, or it reverted."
            )
        sent = {at: transfer for at, transfer in enumerate(transfers, 1) if transfer.sender in senders}
        symbol, source = self.chain.get_symbol(payment.asset), " or ".join(sorted(senders))
        if not sent:
            raise ConfigurationError(
                f"{transaction_hash} moves no {symbol} from {source} to the payer {payment.payer}; {_HOW}."
            )
        if request.position is not None:
            if request.position not in sent:
                raise ConfigurationError(
                    f"--transfer {request.position} of {transaction_hash} moves no {symbol} from {source} "
                    f"to the payer {payment.payer}; use --transfer {' or '.join(map(str, sent))}."
                )
            return request.position, sent[request.position]
        recorded = {
            refund.position
            for refund in list_refunds_of(self.database, payment.account, payment.id)
            if refund.is_kept and refund.transaction_hash == transaction_hash
        }
        # If all of them are recorded, they stay: to record a single one again is refused with its reason.
        sent = {at: transfer for at, transfer in sent.items() if at not in recorded} or sent
        if len(sent) > 1:
            listed = ", ".join(f"{at} ({transfer.value})" for at, transfer in sent.items())
            raise ConfigurationError(
                f"{transaction_hash} moves several amounts to the payer: choose one with --transfer: "
                f"{listed}."
            )
        return next(iter(sent.items()))

    def _check_is_refund(self, payment: PaymentRow, transfer: ReceivedTransfer, safe: int) -> None:
        if transfer.block > safe:
            raise ConfigurationError(
                f"{transfer.transaction_hash} is in block {transfer.block}, and may still be replaced: the "
                f"latest safe block is {safe}. Try again in some minutes."
            )
        if transfer.block < (payment.from_block or 0):
            raise ConfigurationError(f"{transfer.transaction_hash} is older than {payment.id}.")
        if transfer.nonce is None:
            return
        address = self.chain.get_address(transfer.asset)
        paid = find_payment(self.database, address, transfer.sender, transfer.nonce)
        if paid is not None:
            raise ConfigurationError(f"The transfer is the payment {paid.id}, and no refund.")


class RecordedRefunds:
    """The refunds that were not removed, as a comparison with the chain asks for them."""

    def __init__(self, kept: Iterable[Refund]) -> None:
        self.kept: Final = list(kept)
        self._by_hash: dict[str, list[Refund]] = {}
        self._sums = Counter[tuple[int, str]]()
        for refund in self.kept:
            self._by_hash.setdefault(refund.transaction_hash, []).append(refund)
            self._sums[refund.account, refund.transaction] += refund.amount

    def has(self, transfer: ReceivedTransfer) -> bool:
        """Return whether the transfer was recorded as a refund."""
        return any(refund.is_made_by(transfer) for refund in self._by_hash.get(transfer.transaction_hash, ()))

    def sum_of(self, payment: PaymentRow) -> int:
        """Return what was refunded of the payment, in atomic units."""
        return self._sums[payment.account, payment.id]

    def find_fault(self, refund: Refund, chain: PaymentChain, view: ChainView) -> str | None:
        """Return how the chain differs from what was recorded; None if it does not."""
        transfers = chain.list_transfers_of(view, refund.asset, refund.transaction_hash, refund.payer)
        if transfers is None:
            return "not on the chain"
        at = refund.position - 1
        if at < len(transfers) and refund.is_made_by(transfers[at]):
            return None
        return "the chain has another transfer there"
