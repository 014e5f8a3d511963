"""Ask the chain of one environment about payments of the books, to compare the two."""

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from faregate.rules.payments import SettlementPending, SettlementResult
from faregate.service.chain.majority_view import ChainView
from faregate.service.chain.node import ChainNode
from faregate.service.chain.received_transfers import (
    ReceivedTransfer,
    TransferPage,
    list_transfers_of,
    read_transfers,
)
from faregate.service.database.payment_rows import PaymentRow
from faregate.service.database.sql_store import SqlStore
from faregate.service.environment_payments import EnvironmentPayments
from faregate.x402.tokens import TOKENS, Environment, Token

LAG_SECONDS: Final = 15
"""By how much the clocks of this machine and of the chain may differ."""


class PaymentChain:
    """Reads what became of payments. All but `look` raise `PaymentsUnavailable`.

    One of these is `NodesDisagree`: a single answer is needed, and no majority of the nodes gives the same.
    `stores` are those of the environment's accounts, by account.
    """

    def __init__(self, payments: EnvironmentPayments, stores: Iterable[SqlStore]) -> None:
        self.environment: Final[Environment] = payments.environment
        self.payments: Final = payments.payments
        self.chain: Final = payments.chain
        self.stores: Final[Mapping[int, SqlStore]] = {
            store.account.id: store for store in stores if store.environment == payments.environment
        }
        self._tokens: Mapping[str, Token] = {
            token.address.lower(): token
            for (environment, _), token in TOKENS.items()
            if environment == payments.environment
        }

    def get_symbol(self, asset: str) -> str:
        """Return the symbol of a token, or its address if it is none of the environment's."""
        return self._tokens[asset].symbol if asset in self._tokens else asset

    def get_address(self, asset: str) -> str:
        """Return the address of a token as the books write it."""
        return self._tokens[asset].address

    def open_view(self) -> ChainView:
        """Ask all nodes for their latest blocks: what is read in the view needs the word of most of them."""
        return self.chain.open_view()

    def read_transfers(
        self, view: ChainView, addresses: Iterable[str], first: int, patience: float = 0.0
    ) -> Generator[TransferPage]:
        """Read what these addresses received from block `first` to the view's latest, in all tokens."""
        return read_transfers(view, list(self._tokens.values()), addresses, first, patience)

    def list_transfers_of(
        self, view: ChainView, asset: str, transaction_hash: str, to: str
    ) -> tuple[ReceivedTransfer, ...] | None:
        """List what one transaction moved of a token to an address; None if it is in no block or reverted."""
        return list_transfers_of(view, self._tokens[asset], transaction_hash, to)

    def index_transfers(
        self, view: ChainView, addresses: Iterable[str], first: int
    ) -> dict[tuple[str, str, str | None], ReceivedTransfer]:
        """Index what `read_transfers` reads by token, payer and nonce, without what nodes disagree about."""
        return {
            (transfer.asset, transfer.sender, transfer.nonce): transfer
            for page in self.read_transfers(view, addresses, first)
            for transfer in page.transfers
        }

    def look(self, payment: PaymentRow) -> SettlementResult:
        """Return what the chain proves about one payment."""
        store = self.stores[payment.account]
        transaction = store.find_transaction(payment.id)
        if transaction is None:
            return SettlementPending("reconciling")
        attempt = store.read_attempt(transaction)
        return self.payments.look(transaction.payment, transaction.context.terms, attempt)

    def is_unused(self, payment: PaymentRow) -> bool | None:
        """Whether the authorization is unused; None if a node may not have the payment's block yet."""
        view = self.open_view()
        if (payment.finished_at or 0) > (view.head.timestamp - LAG_SECONDS) * 1_000_000:
            return None
        token = self._tokens[payment.asset]
        return view.ask(lambda node: not node.is_authorization_used(token, payment.payer, payment.nonce))

    def is_safe(self, transaction_hash: str) -> bool:
        """Whether the transaction is in a safe block."""
        view = self.open_view()

        def ask(node: ChainNode) -> bool:
            receipt = node.get_receipt(transaction_hash)
            return receipt is not None and receipt.blockNumber <= view.safe.number

        return view.ask(ask)
