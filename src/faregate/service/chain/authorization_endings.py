"""Where on a node's chain an authorization ended, and how. Everything raises `RpcError`, `ContradictoryNode`.

EIP-3009: the token logs the end of each authorization, so that log is looked for. Permit2 logs nothing: it
sets a bit for each nonce that was used or cancelled. So the block that set the bit is looked for, and in it
the transaction that named the nonce. A transfer alone proves nothing: in one block a payer may
send a seller the same amount twice, or use the nonce for a smaller payment with the payer as the facilitator.
If no transaction of the block names the nonce, this payment did not use it: a facilitator without code can
only call the proxy in a transaction of its own.
"""

import logging
from collections.abc import Iterator, Mapping

from faregate.logs import log
from faregate.service.chain.evidence import (
    Effect,
    Ending,
    FullBlock,
    Receipt,
    build_received_filter,
    has_received,
    read_effect,
)
from faregate.service.chain.node import LOG_BLOCKS, ChainNode, find_log
from faregate.service.chain.permit_calls import PermitCall, build_permit_call, read_permit_call
from faregate.service.chain.rpc import RpcError
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token


class ContradictoryNode(Exception):
    """The answers of a node cannot all be true: it lags, its chain was reorganised meanwhile, or it lies."""


def read_ending(node: ChainNode, token: Token, payment: SignedPayment, receipt: Receipt) -> Ending:
    """Read what a transaction did with the authorization."""
    if payment.facilitator is None:
        effect = read_effect(receipt, token, payment)
        return Ending(effect, receipt.blockNumber, receipt.blockHash, receipt.transactionHash)
    call = _try_call(node, receipt.transactionHash) if receipt.status == 1 else None
    return _read_permit_ending(token, payment, receipt, call)


def find_ending(
    node: ChainNode, token: Token, payment: SignedPayment, blocks: range, receipts: Mapping[str, Receipt]
) -> Ending:
    """Find how an authorization ended; it has ended by the last of these blocks.

    `receipts` are those that were read already, by the hash of their transaction.
    """
    if payment.facilitator is not None:
        return _find_permit_ending(node, token, payment, blocks)
    end = find_log(node, token, payment, blocks[0], blocks[-1])
    if end is None:
        raise ContradictoryNode("the authorization was used or cancelled, but no log tells where")
    receipt = receipts.get(end.transactionHash) or node.get_end(token, payment, end)
    return read_ending(node, token, payment, receipt)


def _find_permit_ending(node: ChainNode, token: Token, payment: SignedPayment, blocks: range) -> Ending:
    block = _find_use(node, payment, token, blocks)
    if block is None:
        # Without old states only the call itself can be found. Whatever else happened stays pending.
        for transaction_hash in _scan_received(node, token, payment, blocks):
            call = _read_call(node, transaction_hash)
            if call is not None and _names(call, payment):
                return _read_permit_ending(token, payment, _get_receipt(node, transaction_hash), call)
        raise ContradictoryNode("the authorization was used or cancelled, but no transaction tells how")
    # All transactions of the block, not its logs: a node that lost logs would seem to say that nothing was
    # paid.
    for transaction in block.transactions:
        call = read_permit_call(transaction)
        if call is not None and _names(call, payment):
            receipt = _get_receipt(node, transaction.hash)
            if receipt.status == 1:  # else it came too late
                return _read_permit_ending(token, payment, receipt, call)
    if node.has_code(payment.facilitator or "", block.number):
        raise ContradictoryNode("a contract may have used the authorization inside another call")
    return Ending(Effect.ENDED_OTHERWISE, block.number, block.hash, "")


def _find_use(node: ChainNode, payment: SignedPayment, token: Token, blocks: range) -> FullBlock | None:
    """Find the block that ended the authorization; None if the node has no states of old blocks."""

    def was_used(number: int) -> bool:
        return node.is_authorization_used(token, payment.payer, payment.nonce, number)

    first, last = blocks[0], blocks[-1]
    try:
        while first < last:
            middle = (first + last) // 2
            first, last = (first, middle) if was_used(middle) else (middle + 1, last)
        block = node.get_full_block(first)
        # Asked once more, after the block: a reorganisation during the search makes any block look like it.
        is_found = block is not None and was_used(first) and not (first > 0 and was_used(first - 1))
    except RpcError as error:
        # A code is the node's own answer: it has no state of that block. Without one it was not reached.
        if error.code is None:
            raise
        return None
    if not is_found:
        raise ContradictoryNode("the authorization was used or cancelled, but no block of the payment did it")
    return block


def _scan_received(node: ChainNode, token: Token, payment: SignedPayment, blocks: range) -> Iterator[str]:
    """Iterate over the transactions by which the payer paid the recipient, the newest first."""
    width, last = LOG_BLOCKS, blocks[-1]
    while last >= blocks[0]:
        first = max(blocks[0], last - width + 1)
        places = {"fromBlock": hex(first), "toBlock": hex(last)}
        try:
            received = node.get_logs(build_received_filter(token, payment, places))
        except RpcError as error:
            # The node says that the range is too wide. A range of one block cannot be too wide.
            if error.code is None or width == 1:
                raise
            width //= 2
            continue
        yield from dict.fromkeys(log.transactionHash for log in reversed(received))
        last = first - 1


def _read_permit_ending(
    token: Token, payment: SignedPayment, receipt: Receipt, call: PermitCall | None
) -> Ending:
    effect, amount = Effect.NOTHING, None
    if receipt.status == 1 and call is not None and _names(call, payment):
        if call != build_permit_call(payment, token, call.amount):
            # Another permit with this nonce. The payer may have named itself as the facilitator, for less.
            effect = Effect.USED_OTHERWISE
        elif has_received(receipt, token, payment, call.amount):
            effect, amount = Effect.PAID, call.amount
    return Ending(effect, receipt.blockNumber, receipt.blockHash, receipt.transactionHash, amount)


def _names(call: PermitCall, payment: SignedPayment) -> bool:
    """Return whether the call used the nonce of this payment: Permit2 takes each of a payer once."""
    return (call.payer, call.nonce) == (payment.payer, int(payment.nonce))


def _try_call(node: ChainNode, transaction_hash: str) -> PermitCall | None:
    """Read what a known transaction called, if the node gives it: strangers may have made it large."""
    try:
        return _read_call(node, transaction_hash)
    except RpcError as error:
        log("service", logging.DEBUG, "%s", error)
        return None


def _read_call(node: ChainNode, transaction_hash: str) -> PermitCall | None:
    transaction = node.get_transaction(transaction_hash)
    return None if transaction is None else read_permit_call(transaction)


def _get_receipt(node: ChainNode, transaction_hash: str) -> Receipt:
    receipt = node.get_receipt(transaction_hash)
    if receipt is None:
        raise ContradictoryNode("a transaction whose logs were shown has no receipt")
    return receipt
