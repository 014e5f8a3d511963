"""Read what a chain proves about a payment: it decides every payment that may have been sent.

Only a proof ends a payment. The payment stays pending if no node proves how it ended, or if a node
contradicts itself or another node.
"""

import logging
import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TypeVar

from faregate.logs import log
from faregate.rules.clock import Clock
from faregate.rules.payments import (
    Attempt,
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    Reservation,
    SettlementPending,
    SettlementResult,
)
from faregate.service.chain.authorization_endings import ContradictoryNode
from faregate.service.chain.deadline import get_time_left, limit_time
from faregate.service.chain.majority_view import ChainView, open_view
from faregate.service.chain.node import At, ChainNode
from faregate.service.chain.node_order import take_turns
from faregate.service.chain.rpc import CALL_SECONDS, RpcClient, RpcError, RpcNode
from faregate.service.chain.settlement_agreement import Agreement, agree_without_proof
from faregate.service.chain.settlement_verdict import Judge, SettlementQuery, Verdict
from faregate.transports import Choice
from faregate.x402.eip712 import compute_domain_separator
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.permit2 import PERMIT2
from faregate.x402.tokens import Token

LOOK_SECONDS: Final = 10.0
VERIFY_SECONDS: Final = 6.0
"""What verifying a payment may take. Sellers wait 10 seconds for an answer to access."""
HEAD_SECONDS: Final = 2.0
"""How long `find_first_block` returns the same block: as long as a block of Base takes."""
MOST_LOOKED_UP: Final = 32
"""Reservations that one access asks the chain for, at most: each is a call."""
T = TypeVar("T")


class ChainReader:
    """Reads one chain through any number of nodes, asked in order.

    `look` never raises; the methods that read single facts raise `PaymentsUnavailable` if no node answers.
    `confirmations` is how many blocks, counted from its own, make a payment final; 1 is its own alone. An
    authorization counts as expired only when `clock` says so, too: a node that is wrong about the time must
    not end a payment. Any number of threads may share a reader.
    """

    def __init__(
        self,
        chain: int,
        urls: Sequence[str],
        *,
        clock: Clock,
        confirmations: int = 1,
        transport: Choice = None,
        call_seconds: float = CALL_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.chain: Final = chain
        self.client: Final = RpcClient(urls, transport=transport, seconds=call_seconds)
        self._judge = Judge(clock, confirmations)
        self._agreement = Agreement(self._judge, self._open)
        self._look_seconds = look_seconds
        self._checked: set[RpcNode] = set()
        self._known_head = -math.inf, 0
        """When a latest block was asked for last, and its number."""

    # Single facts

    def get_head(self) -> int:
        """Return the number of the latest block."""
        return self.ask(lambda node: node.get_head()).number

    def find_first_block(self) -> int:
        """Return a block that comes before any payment that is not on the chain yet.

        An earlier block is right as well. So the latest block is not asked for with every payment.
        """
        asked_at, number = self._known_head
        now = monotonic()
        if now - asked_at >= HEAD_SECONDS:
            number = self.get_head()
            self._known_head = now, number
        return number

    def get_balance(self, token: Token, address: str, at: At = "latest") -> int:
        """Return the balance in atomic units, as of a block."""
        return self.ask(lambda node: node.get_balance(token, address, at))

    def get_ether(self, address: str) -> int:
        """Return what the address has for gas, in wei."""
        return self.ask(lambda node: node.get_ether(address))

    def is_authorization_used(self, token: Token, payer: str, nonce: str, at: At = "latest") -> bool:
        """Return whether the authorization was used or cancelled, as of a block."""
        return self.ask(lambda node: node.is_authorization_used(token, payer, nonce, at))

    def find_token_fault(self, token: Token) -> str | None:
        """Return why this is not the token we know, in words for the operator; None if it is."""
        if not self.ask(lambda node: node.has_code(token.address)):
            return f"there is no contract at {token.address} on chain {token.chain}"
        if self.ask(lambda node: node.get_domain_separator(token)) != compute_domain_separator(token):
            return f"the contract at {token.address} does not sign as {token.name} version {token.version}"
        return None

    def read_funds(
        self,
        payment: SignedPayment,
        terms: Terms,
        committed: int,
        reservations: Sequence[Reservation],
    ) -> int:
        """Return what the payer has for this payment beside `committed`, in atomic units.

        That is its balance, with what the chain has taken for `reservations`. The books learn of a transfer
        some time after its block. Until then its amount is reserved, and has already left the balance:
        counted twice, it would refuse a payer who has enough. So where the balance alone is short, the latest
        block is asked which authorizations were used. One that was cancelled counts like one that was used:
        it is reserved, too, until the books learn of that.
        """
        token, payer = terms.token, payment.payer
        funds = self.get_balance(token, payer)
        needed = committed + payment.value
        if funds >= needed or funds < payment.value:
            return funds
        # Balance and authorizations as of one block: a transfer between two questions would be in both.
        block = self.get_head()
        funds = self.get_balance(token, payer, block)
        for reservation in reservations[:MOST_LOOKED_UP]:
            if funds >= needed:
                break
            if self._was_taken(token, payer, reservation, block):
                funds += reservation.value
        return funds

    def find_missing_approval(
        self, payment: SignedPayment, terms: Terms, reservations: Sequence[Reservation], block: int
    ) -> PaymentRefused | None:
        """Return the refusal of a payer whose approval of Permit2 does not cover this payment beside others.

        Most payers have approved it without a limit. Of the others, what Permit2 took meanwhile is not
        reserved any more, as with `read_funds`.
        """
        if payment.facilitator is None:
            return None
        token, payer = terms.token, payment.payer
        others = [reservation for reservation in reservations if not reservation.nonce.startswith("0x")]
        needed = payment.value + sum(other.value for other in others)
        allowed = self.ask(lambda node: node.get_allowance(token, payer))
        if allowed < needed and others and allowed >= payment.value:
            allowed = self.ask(lambda node: node.get_allowance(token, payer, block))
            used_up = (
                other for other in others[:MOST_LOOKED_UP] if self._was_taken(token, payer, other, block)
            )
            needed -= sum(other.value for other in used_up)
        if allowed >= needed:
            return None
        return PaymentRefused(
            f"permit2_allowance_required: approve {PERMIT2} for {needed} atomic units of {token.symbol}"
        )

    def _was_taken(self, token: Token, payer: str, reservation: Reservation, block: int) -> bool:
        return self.is_authorization_used(token, payer, reservation.nonce, block)

    def is_contract(self, address: str) -> bool:
        """Return whether there is code at this address."""
        return self.ask(lambda node: node.has_code(address))

    # A payment

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Return what the chain proves, as `rules.payments.Payments.look`.

        A settlement that one node proves is believed if another node proves it, or if no other node has a say
        (`settlement_agreement.py`). A payment is refused only if no node that answers contradicts it. Takes
        `look_seconds` at most, and for a settlement `CONFIRM_SECONDS` more.
        """
        query = SettlementQuery(payment, terms.token, attempt)
        answers: list[SettlementResult] = []
        with limit_time(self._look_seconds):
            proof = self._find_proof(query, answers)
        if proof is None:
            return agree_without_proof(answers)
        # With time of its own: a slow node must not take that of the others.
        return self._agreement.confirm(*proof, self.client.nodes, query)

    def _find_proof(
        self, query: SettlementQuery, answers: list[SettlementResult]
    ) -> tuple[RpcNode, Verdict] | None:
        """Find the first node that proves a settlement; what the others say is added to `answers`."""
        nodes = take_turns(self.client.nodes, monotonic())
        for nodes_left, (node, rests) in zip(range(len(self.client.nodes), 0, -1), nodes, strict=True):
            # Only a refusal needs the word of every node.
            if rests and any(isinstance(answer, SettlementPending) for answer in answers):
                break
            # A node that hangs leaves the others their share of the time.
            with limit_time(get_time_left(self._look_seconds) / nodes_left):
                verdict = self._ask_node(node, query)
            if verdict is None:
                continue
            if isinstance(verdict.result, PaymentSettled):
                return node, verdict
            answers.append(verdict.result)
        return None

    def _ask_node(self, node: RpcNode, query: SettlementQuery) -> Verdict | None:
        """Ask one node; None if it does not answer."""
        try:
            return self._judge.look_at(self._open(node), query)
        except RpcError as error:
            log("service", logging.WARNING, "%s", error)
            return None
        except ContradictoryNode as error:
            log("service", logging.WARNING, "RPC node %s is not believed: %s", node.host, error)
            return Verdict(SettlementPending("reconciling"))

    # Nodes

    def open_view(self) -> ChainView:
        """Ask all nodes, for what one of them must not decide alone. Raises `PaymentsUnavailable`."""
        return open_view(self.client.nodes, self._open, self._judge.clock().timestamp())

    def ask(self, query: Callable[[ChainNode], T]) -> T:
        """Put a query to the first node of this chain that answers it. Raises `PaymentsUnavailable`."""
        try:
            return self.client.ask(lambda node: query(self._open(node)))
        except RpcError as error:
            raise PaymentsUnavailable(str(error)) from error

    def _open(self, node: RpcNode) -> ChainNode:
        """Return the node for questions. Raises `RpcError` if it is one of another chain."""
        opened = ChainNode(node)
        # Once is enough: a node does not change its chain.
        if node not in self._checked:
            chain = opened.get_quantity("eth_chainId")
            if chain != self.chain:
                node.record_failure()
                raise RpcError(f"RPC node {node.host} is one of chain {chain}, not of {self.chain}")
            self._checked.add(node)
        return opened

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        self.client.close()
