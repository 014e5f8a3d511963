"""What several nodes show of their chain, as of a block that each of them has.

These answers are compared with the books, are recorded, or say which blocks are safe. So where several nodes
are set, one node alone does not decide, as with settlements (`settlement_agreement.py`). A node that does not
answer, or that stands still, has no say.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar

from faregate.logs import log
from faregate.rules.payments import PaymentsUnavailable
from faregate.service.chain.evidence import Block
from faregate.service.chain.node import ChainNode
from faregate.service.chain.node_order import take_turns
from faregate.service.chain.rpc import RpcError, RpcNode
from faregate.service.chain.settlement_agreement import STALE_SECONDS

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


class NodesDisagree(PaymentsUnavailable):
    """No answer was given by more than half of the nodes that answered."""


@dataclass(frozen=True, slots=True)
class Voter:
    """A node that has a say, and its latest blocks when the view was opened."""

    node: RpcNode
    opened: ChainNode
    safe: Block
    head: Block


class ChainView:
    """The nodes that have a say, one at least.

    Each of them has `head`, and calls `safe` safe. Questions raise `PaymentsUnavailable` if no node answers.
    """

    def __init__(self, voters: Sequence[Voter]) -> None:
        self._voters = voters
        self.head: Final = min((voter.head for voter in voters), key=_get_number)
        self.safe: Final = min((voter.safe for voter in voters), key=_get_number)

    def ask_each(self, question: Callable[[ChainNode], T]) -> dict[RpcNode, T]:
        """Put a question to each node, and return the answers of those that answer it."""
        answers: dict[RpcNode, T] = {}
        failure: RpcError | None = None
        for voter in self._voters:
            try:
                answers[voter.node] = question(voter.opened)
            except RpcError as error:
                log("service", logging.WARNING, "%s", error)
                failure = error
        if not answers:
            raise PaymentsUnavailable(str(failure)) from failure
        return answers

    def ask(self, question: Callable[[ChainNode], H]) -> H:
        """Return the answer that more than half of the answering nodes give. Raises `NodesDisagree`."""
        answers = self.ask_each(question)
        [(answer, count)] = Counter(answers.values()).most_common(1)
        if 2 * count <= len(answers):
            count_disagreements(answers)
            raise NodesDisagree(f"RPC nodes disagree: {', '.join(node.host for node in answers)}")
        count_disagreements(node for node, node_answer in answers.items() if node_answer != answer)
        return answer


def open_view(nodes: Sequence[RpcNode], open_node: Callable[[RpcNode], ChainNode], now: float) -> ChainView:
    """Ask each node for its latest blocks; a node that rests only if no other one answers.

    `now` is in Unix seconds. `open_node` raises `RpcError`. Raises `PaymentsUnavailable`.
    """
    voters: list[Voter] = []
    failure: RpcError | None = None
    for node, rests in take_turns(nodes, monotonic()):
        if rests and voters:
            break
        try:
            opened = open_node(node)
            # The safe block first: what is above it now is not called safe by a block that comes later.
            safe = opened.get_safe()
            voters.append(Voter(node, opened, safe, opened.get_head()))
        except RpcError as error:
            log("service", logging.WARNING, "%s", error)
            failure = error
    if not voters:
        raise PaymentsUnavailable(str(failure)) from failure
    newest = min(now, max(voter.head.timestamp for voter in voters))
    moving = [voter for voter in voters if voter.head.timestamp >= newest - STALE_SECONDS]
    for voter in voters:
        if voter not in moving:
            name, number = voter.node.host, voter.head.number
            log("service", logging.WARNING, "RPC node %s stands still at block %d", name, number)
    return ChainView(moving)


def count_disagreements(nodes: Iterable[RpcNode]) -> None:
    """Count and log that these nodes contradict others."""
    hosts: list[str] = []
    for node in nodes:
        node.count_disagreement()
        hosts.append(node.host)
    if hosts:
        log("service", logging.WARNING, "RPC nodes disagree about the chain: %s", ", ".join(hosts))


def _get_number(block: Block) -> int:
    return block.number
