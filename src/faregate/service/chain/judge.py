"""What one node proves about a payment. It asks nobody else: `chain.py` weighs what several say."""

import logging
from dataclasses import dataclass, field
from typing import Final

from faregate.logs import log
from faregate.rules.clock import Clock
from faregate.rules.payments import (
    Attempt,
    PaymentRefused,
    PaymentSettled,
    SettlementPending,
    SettlementResult,
)
from faregate.service.chain.evidence import Block, Fate, Receipt, read_fate
from faregate.service.chain.node import ChainNode, find_log
from faregate.service.chain.rpc import RpcError
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

REORG_BLOCKS: Final = 64
"""Blocks before `Attempt.from_block` that are still believed: the chain may have been reorganised since."""


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a node proves. Whoever has `block` can see a settlement, too."""

    result: SettlementResult
    block: int = 0


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges payments by what a node says. See `ChainReader` for its settings."""

    clock: Clock
    confirmations: int

    def look_at(self, node: ChainNode, question: Question) -> Verdict:
        """Return what the node proves. Raises `RpcError` and `ContradictoryNode`."""
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
            return Verdict(self._judge_unused(node, question))
        head = _get_head(node, question)
        found = find_log(node, question.token, payment, question.first_block, head.number)
        if found is None:
            raise ContradictoryNode("the authorization was used or cancelled, but no log tells where")
        receipt = receipts.get(found.transactionHash) or node.get_end(question.token, payment, found)
        return self._judge_receipt(node, question, receipt)

    def _judge_receipt(self, node: ChainNode, question: Question, receipt: Receipt) -> Verdict:
        """Judge a payment by the transaction that ended its authorization."""
        if receipt.blockNumber < question.first_block:
            raise ContradictoryNode("the transaction is older than the payment")
        fate = _read(receipt, question)
        # A payment needs so many blocks; a cancellation goes with any block that can still be replaced.
        head = _get_head(node, question)
        is_paid = fate is Fate.PAID
        last = head.number - self.confirmations + 1 if is_paid else _get_safe(node, question).number
        # Read after the head: a reorganisation between the two would make a block that is gone look deep.
        block = node.get_block(receipt.blockNumber)
        if block is None or block.hash != receipt.blockHash or block.number > head.number:
            raise ContradictoryNode("the block of the transaction is not in the chain")
        if fate is Fate.NOTHING:
            raise ContradictoryNode("the logs of the transaction do not tell how the authorization ended")
        if block.number > last:
            return Verdict(question.pending)
        if is_paid:
            return Verdict(PaymentSettled(receipt.transactionHash), block.number + self.confirmations - 1)
        if fate is Fate.CANCELED:
            return Verdict(PaymentRefused("the payer cancelled the authorization"))
        return Verdict(PaymentRefused("the payer used the authorization's nonce for another payment"))

    def _judge_unused(self, node: ChainNode, question: Question) -> SettlementResult:
        """Judge a payment whose authorization was not used: it is over only once its time is."""
        payment = question.payment
        if self.clock().timestamp() < payment.valid_before:
            return question.pending
        safe = _get_safe(node, question)
        if safe.timestamp < payment.valid_before:
            return question.pending
        if node.is_authorization_used(question.token, payment.payer, payment.nonce, safe.number):
            raise ContradictoryNode("the authorization was used in a safe block, but not in the latest")
        return PaymentRefused("the authorization expired unused")


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
