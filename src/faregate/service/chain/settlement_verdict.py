"""What one node proves about a payment.

`chain_reader.py` asks the nodes, `settlement_agreement.py` compares their answers.
"""

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
from faregate.service.chain.authorization_endings import ContradictoryNode, find_ending, read_ending
from faregate.service.chain.evidence import Block, Effect, Ending, Receipt
from faregate.service.chain.node import ChainNode
from faregate.service.chain.rpc import RpcError
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

REORG_BLOCKS: Final = 64
"""Blocks before `Attempt.from_block` that are still believed: the chain may have been reorganised since."""
_REASONS: Final = {
    Effect.CANCELED: "the payer cancelled the authorization",
    Effect.USED_OTHERWISE: "the payer used the authorization's nonce for another payment",
    Effect.ENDED_OTHERWISE: "the payer cancelled the authorization, or used its nonce for another payment",
}


@dataclass(frozen=True, slots=True)
class SettlementQuery:
    """The question what became of a payment, with what is known of its transfers."""

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
        signed_hash = () if signed is None else (signed.transaction_hash,)
        return tuple(dict.fromkeys((*self.attempt.hashes, *signed_hash)))

    @property
    def pending(self) -> SettlementPending:
        """The answer while nothing is proven and nothing is wrong."""
        return SettlementPending("settling" if self.attempt.number == 1 else "reconciling")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a node proves. Another node can confirm a settlement if it has the block `confirmed_at`."""

    result: SettlementResult
    confirmed_at: int = 0


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges payments by what a node says. See `ChainReader` for its settings."""

    clock: Clock
    confirmations: int

    def look_at(self, node: ChainNode, query: SettlementQuery) -> Verdict:
        """Return what the node proves. Raises `RpcError` and `ContradictoryNode`."""
        # A known hash costs few calls. A search proves as much, and shows transfers whose hash we never got.
        token, payment = query.token, query.payment
        receipts: dict[str, Receipt] = {}
        for transaction_hash in query.hashes:
            receipt = _try_receipt(node, transaction_hash)
            if receipt is None:
                continue
            receipts[receipt.transactionHash] = receipt
            ending = read_ending(node, token, payment, receipt)
            if ending.effect is Effect.PAID:
                return self._judge_ending(node, query, ending)
        if not node.is_authorization_used(token, payment.payer, payment.nonce):
            return Verdict(self._judge_unused(node, query))
        blocks = range(query.first_block, _get_head(node, query).number + 1)
        return self._judge_ending(node, query, find_ending(node, token, payment, blocks, receipts))

    def _judge_ending(self, node: ChainNode, query: SettlementQuery, ending: Ending) -> Verdict:
        """Judge a payment by the end of its authorization."""
        if ending.block < query.first_block:
            raise ContradictoryNode("the transaction is older than the payment")
        effect = ending.effect
        is_paid = effect is Effect.PAID
        last = self._find_last_block(node, query, ending)
        # Read after the last block: else a reorganisation between the two would make a replaced block look
        # confirmed.
        block = node.get_block(ending.block)
        if block is None or block.hash != ending.block_hash:
            raise ContradictoryNode("the block of the transaction is not in the chain")
        if effect is Effect.NOTHING:
            raise ContradictoryNode("the logs of the transaction do not tell how the authorization ended")
        if block.number > last:
            return Verdict(query.pending)
        if is_paid:
            settled = PaymentSettled(ending.transaction_hash, ending.amount)
            return Verdict(settled, block.number + self.confirmations - 1)
        return Verdict(PaymentRefused(_REASONS[effect]))

    def _find_last_block(self, node: ChainNode, query: SettlementQuery, ending: Ending) -> int:
        """Return the highest block whose endings are final enough; it may be lower than the true one."""
        if ending.effect is not Effect.PAID:
            # Another cancellation could replace one that is not in a safe block.
            return _get_safe(node, query).number
        if self.confirmations == 1:
            # A node that has a block has a latest one that is not before it.
            return ending.block
        return _get_head(node, query).number - self.confirmations + 1

    def _judge_unused(self, node: ChainNode, query: SettlementQuery) -> SettlementResult:
        """Judge a payment whose authorization was not used: it fails only when its time is over."""
        payment = query.payment
        if self.clock().timestamp() < payment.valid_before:
            return query.pending
        safe = _get_safe(node, query)
        if safe.timestamp < payment.valid_before:
            return query.pending
        if node.is_authorization_used(query.token, payment.payer, payment.nonce, safe.number):
            raise ContradictoryNode("the authorization was used in a safe block, but not in the latest")
        return PaymentRefused("the authorization expired unused")


def _try_receipt(node: ChainNode, transaction_hash: str) -> Receipt | None:
    """Return the receipt if the node has it, and gives it: strangers may have made it large."""
    try:
        return node.get_receipt(transaction_hash)
    except RpcError as error:
        log("service", logging.DEBUG, "%s", error)
        return None


def _get_head(node: ChainNode, query: SettlementQuery) -> Block:
    head = node.get_head()
    if head.number < (query.attempt.from_block or 0) - REORG_BLOCKS:
        raise ContradictoryNode("its latest block is older than the payment")
    return head


def _get_safe(node: ChainNode, query: SettlementQuery) -> Block:
    safe = node.get_safe()
    if safe.number > _get_head(node, query).number:
        raise ContradictoryNode("its safe block is ahead of its latest")
    return safe
