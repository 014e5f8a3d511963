"""Whether the nodes of a chain agree that a payment settled. One alone is enough only if no other answers.

A node that does not have the block yet is asked again for some seconds: nodes are a block or two apart. A
node has no say if it does not answer, or if its latest block is old: otherwise one node that stands still
would keep every payment open.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from time import monotonic
from typing import Final

from faregate.logs import log
from faregate.rules.payments import PaymentRefused, PaymentSettled, SettlementPending, SettlementResult
from faregate.service.chain.authorization_endings import ContradictoryNode
from faregate.service.chain.deadline import limit_time
from faregate.service.chain.node import ChainNode
from faregate.service.chain.rpc import RpcError, RpcNode
from faregate.service.chain.settlement_verdict import REORG_BLOCKS, Judge, SettlementQuery, Verdict

CONFIRM_SECONDS: Final = 4.0
"""How long the other nodes are asked. Nodes that are behind are waited for within this time."""
_POLL_SECONDS: Final = 0.5
STALE_SECONDS: Final = 60
"""A node whose latest block is older stands still. Blocks of Base come every two seconds."""


class Word(Enum):
    """What another node says of a settlement."""

    PROVES = auto()
    DENIES = auto()
    """It has the block, and proves no such settlement."""
    BEHIND = auto()
    """It does not have the block yet."""
    NO_SAY = auto()
    """It does not answer, or stands still."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Asks the other nodes about a settlement that one node has proven. `open_node` raises `RpcError`."""

    judge: Judge
    open_node: Callable[[RpcNode], ChainNode]

    def confirm(
        self, prover: RpcNode, proof: Verdict, nodes: Sequence[RpcNode], query: SettlementQuery
    ) -> SettlementResult:
        """Return the settlement if another node proves it, or none has a say; else it is pending.

        If nodes contradict each other, it counts only if more of them prove than deny it.
        """
        others = [node for node in nodes if node is not prover and not node.is_resting()]
        query = _name_transaction(query, proof.result)
        end = monotonic() + CONFIRM_SECONDS
        words: dict[RpcNode, Word] = {}
        with limit_time(CONFIRM_SECONDS):
            while True:
                # A node's last answer counts while it does not answer.
                words |= {
                    node: word
                    for node, word in self._ask(others, proof, query).items()
                    if word is not Word.NO_SAY or node not in words
                }
                denying = [node for node, word in words.items() if word is Word.DENIES]
                if _is_agreed(list(words.values())):
                    _record(denying, prover)
                    return proof.result
                if monotonic() + _POLL_SECONDS >= end:
                    break
                time.sleep(_POLL_SECONDS)
        if not denying:
            return query.pending
        _record([prover, *denying], prover)
        return SettlementPending("reconciling")

    def _ask(self, nodes: Sequence[RpcNode], proof: Verdict, query: SettlementQuery) -> dict[RpcNode, Word]:
        """Ask one node after another, until one proves the settlement and none has denied it."""
        words: dict[RpcNode, Word] = {}
        for node in nodes:
            words[node] = self._ask_node(node, proof, query)
            if words[node] is Word.PROVES and Word.DENIES not in words.values():
                break
        return words

    def _ask_node(self, node: RpcNode, proof: Verdict, query: SettlementQuery) -> Word:
        try:
            opened = self.open_node(node)
            # Read first: the answer is then as of this block, or of a later one.
            head = opened.get_head()
            if self._look_at(opened, query) == proof.result:
                return Word.PROVES
        except RpcError as error:
            log("service", logging.WARNING, "%s; it has no say about a settlement", error)
            return Word.NO_SAY
        if head.number >= proof.confirmed_at:
            return Word.DENIES
        if head.timestamp < self.judge.clock().timestamp() - STALE_SECONDS:
            log("service", logging.WARNING, "RPC node %s stands still at block %d", node.host, head.number)
            return Word.NO_SAY
        # A node that is up to date cannot be so far behind: there is no such block.
        return Word.DENIES if proof.confirmed_at - head.number > REORG_BLOCKS else Word.BEHIND

    def _look_at(self, node: ChainNode, query: SettlementQuery) -> SettlementResult | None:
        try:
            return self.judge.look_at(node, query).result
        except ContradictoryNode as error:
            log("service", logging.DEBUG, "RPC node %s is not believed: %s", node.host, error)
            return None


def agree_without_proof(answers: Sequence[SettlementResult]) -> SettlementResult:
    """Return what the nodes agree on, if none of them proves a settlement: a refusal only if all refuse."""
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


def _name_transaction(query: SettlementQuery, result: SettlementResult) -> SettlementQuery:
    """Add the transaction that a node has named: its receipt costs one call, a search many."""
    if not isinstance(result, PaymentSettled):
        return query
    hashes = tuple(dict.fromkeys((result.transaction_hash, *query.attempt.hashes)))
    return replace(query, attempt=replace(query.attempt, hashes=hashes))


def _is_agreed(words: Sequence[Word]) -> bool:
    """Whether another node proves it, too, and more prove than deny it; or no other node has a say."""
    proofs, denials = words.count(Word.PROVES), words.count(Word.DENIES)
    return 1 + proofs > denials if proofs else words.count(Word.NO_SAY) == len(words)


def _record(nodes: Sequence[RpcNode], prover: RpcNode) -> None:
    """Count and log that these nodes contradict others about a settlement."""
    for node in nodes:
        node.count_disagreement()
    if nodes:
        hosts = ", ".join(node.host for node in nodes if node is not prover)
        log(
            "service",
            logging.WARNING,
            "RPC nodes disagree about a payment: %s proves that it settled, %s denies it",
            prover.host,
            hosts,
        )
