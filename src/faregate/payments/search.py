"""Find the log in which an authorization ended, on nodes that limit what one `eth_getLogs` may cover."""

from typing import Final

from faregate.payments.evidence import Log
from faregate.payments.node import ChainNode
from faregate.payments.rpc import RpcError
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

LOG_BLOCKS: Final = 2_000
"""Blocks that one query covers at first. Where a node refuses that, fewer are asked for."""


def find_log(node: ChainNode, token: Token, payment: SignedPayment, first: int, last: int) -> Log | None:
    """Find where the authorization was used or cancelled, known to be so in block `last`; None if unfound.

    A long range is halved by what the token says of its middle block. A node without old states cannot say
    that; then the range is searched query by query. Raises `RpcError`.
    """
    width = LOG_BLOCKS
    while True:
        if last - first < width:
            try:
                return _get_only(node.find_logs(token, payment, first, last))
            except RpcError as error:
                if error.code is None or first == last:
                    raise
                width = (last - first + 1) // 2
        middle = (first + last) // 2
        try:
            was_used = node.is_authorization_used(token, payment.payer, payment.nonce, middle)
        except RpcError as error:
            if error.code is None:
                raise
            return _scan(node, token, payment, first, last, width)
        first, last = (first, middle) if was_used else (middle + 1, last)


def _scan(
    node: ChainNode, token: Token, payment: SignedPayment, first: int, last: int, width: int
) -> Log | None:
    """Search `width` blocks at a time, the newest first: most payments are recent."""
    while last >= first:
        start = max(first, last - width + 1)
        try:
            logs = node.find_logs(token, payment, start, last)
        except RpcError as error:
            if error.code is None or width == 1:
                raise
            width //= 2
            continue
        if logs:
            return _get_only(logs)
        last = start - 1
    return None


def _get_only(logs: tuple[Log, ...]) -> Log | None:
    """Return the one log. An authorization ends once: a node that shows two ends is not believed."""
    return logs[0] if len(logs) == 1 else None
