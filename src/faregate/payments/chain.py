"""Read what a chain proves about a payment: the judge of every payment that may have been sent.

Only a proof ends a payment. Whatever a node does not prove, or if it contradicts itself or another node, the
payment stays pending.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, TypeVar

from faregate.logs import log
from faregate.merchant.transports import Choice
from faregate.payments.deadline import get_time_left, limit_time
from faregate.payments.evidence import Block, Fate, Receipt, read_fate
from faregate.payments.failover import take_turns
from faregate.payments.node import At, ChainNode, find_log
from faregate.payments.rpc import CALL_SECONDS, RpcClient, RpcError, RpcNode
from faregate.service.clock import Clock
from faregate.service.payments import (
    Attempt,
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    Reservation,
    SettlementPending,
    SettlementResult,
)
from faregate.x402.eip712 import compute_domain_separator
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

LOOK_SECONDS: Final = 10.0
VERIFY_SECONDS: Final = 6.0
"""What verifying a payment may take. Sellers wait 10 seconds for an answer to access."""
REORG_BLOCKS: Final = 64
"""Blocks before `Attempt.from_block` that are still believed: the chain may have been reorganised since."""
MOST_LOOKED_UP: Final = 32
"""Reservations that one access asks the chain for, at most: each is a call."""
T = TypeVar("T")


class ContradictoryNode(Exception):
    """What a node says cannot all be true: it lags, its chain was reorganised meanwhile, or it lies."""


@dataclass(frozen=True, slots=True)
class Question:
    """What became of this payment?"""

    payment: SignedPayment = field(repr=False)
    token: Token
    attempt: Attempt

    @property
    def first_block(self) -> int:
        """The first block in which the payment may be."""
        return max((self.attempt.from_block or 0) - REORG_BLOCKS, 0)

    @property
    def hashes(self) -> tuple[str, ...]:
        """The transactions that may have settled it, as far as they are known."""
        signed = self.attempt.signed
        own = () if signed is None else (signed.transaction_hash,)
        return tuple(dict.fromkeys((*self.attempt.hashes, *own)))

    @property
    def pending(self) -> SettlementPending:
        """The answer while nothing is proven and nothing is wrong."""
        return SettlementPending("settling" if self.attempt.number == 1 else "reconciling")


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
        self._clock = clock
        self._confirmations = confirmations
        self._look_seconds = look_seconds
        self._checked: set[RpcNode] = set()

    # Single facts

    def get_head(self) -> int:
        """Return the number of the latest block."""
        return self.ask(lambda node: node.get_head()).number

    def get_safe(self) -> Block:
        """Return the latest block that counts as safe."""
        return self.ask(lambda node: node.get_safe())

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
        block: int,
    ) -> int:
        """Return what the payer has for this payment beside `committed`, in atomic units.

        That is its balance, with what the chain has taken for `reservations`. The books learn of a transfer
        some time after its block. Until then its amount is reserved, and not in the balance any more: counted
        twice, it would refuse a payer who has enough. So where the balance alone is short, `block` is asked
        which authorizations were used. One that was cancelled counts like one that was used: it is reserved,
        too, until the books learn of that.
        """
        token, payer = terms.token, payment.payer
        funds = self.get_balance(token, payer)
        needed = committed + payment.value
        if funds >= needed or funds < payment.value:
            return funds
        # Balance and authorizations as of one block: a transfer between two questions would be in both.
        funds = self.get_balance(token, payer, block)
        for one in reservations[:MOST_LOOKED_UP]:
            if funds >= needed:
                break
            if self.is_authorization_used(token, payer, one.nonce, block):
                funds += one.value
        return funds

    # A payment

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Return what the chain proves, as `service.payments.Payments.look`.

        The first node that proves a settlement is believed. A payment is refused only if no node that answers
        says otherwise. Takes `look_seconds` at most.
        """
        question = Question(payment, terms.token, attempt)
        answers: list[SettlementResult] = []
        nodes = take_turns(self.client.nodes, monotonic())
        with limit_time(self._look_seconds):
            for left, (node, rests) in zip(range(len(self.client.nodes), 0, -1), nodes, strict=True):
                # Only a refusal needs the word of every node.
                if rests and any(isinstance(answer, SettlementPending) for answer in answers):
                    break
                # A node that hangs leaves the others their share of the time.
                with limit_time(get_time_left(self._look_seconds) / left):
                    answer = self._ask_node(node, question)
                if answer is not None:
                    answers.append(answer)
                if isinstance(answer, PaymentSettled):
                    break
        return _agree(answers)

    def _ask_node(self, node: RpcNode, question: Question) -> SettlementResult | None:
        """Ask one node; None if it does not answer."""
        try:
            return self._look_at(self._open(node), question)
        except RpcError as error:
            log("service", logging.WARNING, "%s", error)
            return None
        except ContradictoryNode as error:
            log("service", logging.WARNING, "RPC node %s is not believed: %s", node.host, error)
            return SettlementPending("reconciling")

    def _look_at(self, node: ChainNode, question: Question) -> SettlementResult:
        # A known hash costs one call. The logs prove as much, and know of a transfer that nobody told us of.
        receipts: dict[str, Receipt] = {}
        for known in question.hashes:
            receipt = _try_receipt(node, known)
            if receipt is None:
                continue
            receipts[receipt.transactionHash] = receipt
            if _read(receipt, question) is Fate.PAID:
                return self._judge_receipt(node, question, receipt)
        payment = question.payment
        if not node.is_authorization_used(question.token, payment.payer, payment.nonce):
            return self._judge_unused(node, question)
        head = _get_head(node, question)
        found = find_log(node, question.token, payment, question.first_block, head.number)
        if found is None:
            raise ContradictoryNode("the authorization was used or cancelled, but no log tells where")
        receipt = receipts.get(found.transactionHash) or node.get_end(question.token, payment, found)
        return self._judge_receipt(node, question, receipt)

    def _judge_receipt(self, node: ChainNode, question: Question, receipt: Receipt) -> SettlementResult:
        """Judge a payment by the transaction that ended its authorization."""
        if receipt.blockNumber < question.first_block:
            raise ContradictoryNode("the transaction is older than the payment")
        fate = _read(receipt, question)
        # A payment needs so many blocks; a cancellation goes with any block that can still be replaced.
        head = _get_head(node, question)
        is_paid = fate is Fate.PAID
        last = head.number - self._confirmations + 1 if is_paid else _get_safe(node, question).number
        # Read after the head: a reorganisation between the two would make a block that is gone look deep.
        block = node.get_block(receipt.blockNumber)
        if block is None or block.hash != receipt.blockHash or block.number > head.number:
            raise ContradictoryNode("the block of the transaction is not in the chain")
        if fate is Fate.NOTHING:
            raise ContradictoryNode("the logs of the transaction do not tell how the authorization ended")
        if block.number > last:
            return question.pending
        if is_paid:
            return PaymentSettled(receipt.transactionHash)
        if fate is Fate.CANCELED:
            return PaymentRefused("the payer cancelled the authorization")
        return PaymentRefused("the payer used the authorization's nonce for another payment")

    def _judge_unused(self, node: ChainNode, question: Question) -> SettlementResult:
        """Judge a payment whose authorization was not used: it is over only once its time is."""
        payment = question.payment
        if self._clock().timestamp() < payment.valid_before:
            return question.pending
        safe = _get_safe(node, question)
        if safe.timestamp < payment.valid_before:
            return question.pending
        if node.is_authorization_used(question.token, payment.payer, payment.nonce, safe.number):
            raise ContradictoryNode("the authorization was used in a safe block, but not in the latest")
        return PaymentRefused("the authorization expired unused")

    # Nodes

    def ask(self, question: Callable[[ChainNode], T]) -> T:
        """Put a question to the first node of this chain that answers it. Raises `PaymentsUnavailable`."""
        try:
            return self.client.ask(lambda node: question(self._open(node)))
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


def _agree(answers: Sequence[SettlementResult]) -> SettlementResult:
    """Return what the nodes agree on. A settlement needs one of them, unless another rules it out."""
    refused = [answer for answer in answers if isinstance(answer, PaymentRefused)]
    if answers and len(refused) == len(answers):
        return refused[0]
    if refused:
        log(
            "service",
            logging.WARNING,
            "RPC nodes disagree about a payment: %d of %d refuse it",
            len(refused),
            len(answers),
        )
        return SettlementPending("reconciling")
    return answers[-1] if answers else SettlementPending("reconciling")


def _try_receipt(node: ChainNode, transaction_hash: str) -> Receipt | None:
    """Return the receipt if the node has it, and gives it: strangers may have made it large."""
    try:
        return node.get_receipt(transaction_hash)
    except RpcError as error:
        log("service", logging.DEBUG, "%s", error)
        return None


def _read(receipt: Receipt, question: Question) -> Fate:
    return read_fate(receipt, question.token, question.payment)


def _get_head(node: ChainNode, question: Question) -> Block:
    head = node.get_head()
    if head.number < (question.attempt.from_block or 0) - REORG_BLOCKS:
        raise ContradictoryNode("its latest block is older than the payment")
    return head


def _get_safe(node: ChainNode, question: Question) -> Block:
    safe = node.get_safe()
    if safe.number > _get_head(node, question).number:
        raise ContradictoryNode("its safe block is ahead of its latest")
    return safe
