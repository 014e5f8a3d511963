"""What the gas account asks a chain's node, and how it sends. Each function raises `RpcError`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from faregate.payments.direct.fees import FeeMarket
from faregate.payments.rpc import RpcError, RpcNode
from faregate.payments.texts import clean_text

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_REVERTED: Final = 3
"""The code of geth for a call that the contract refused. Others have the word in their message only."""


@dataclass(frozen=True, slots=True)
class TransferReverts:
    """The token would refuse the transfer now; `reason` is the token's own, if it gave one."""

    reason: str


@dataclass(frozen=True, slots=True)
class TransferConditions:
    """What the chain asks for a transfer: units of gas and fees; `balance` (wei) is what the account has.

    `next_nonce` counts the account's transactions, those that wait for a block included.
    """

    gas: int
    market: FeeMarket
    balance: int
    next_nonce: int


def ask_conditions(node: RpcNode, sender: str, to: str, data: bytes) -> TransferConditions | TransferReverts:
    """Ask one node for everything that a new transfer needs; the transfer is simulated."""
    gas = simulate(node, sender, to, data, "eth_estimateGas")
    if isinstance(gas, TransferReverts):
        return gas
    return TransferConditions(
        gas=_read_quantity(gas),
        market=ask_fee_market(node),
        balance=ask_balance(node, sender),
        next_nonce=ask_nonce(node, sender, "pending"),
    )


def simulate(
    node: RpcNode, sender: str, to: str, data: bytes, method: str = "eth_call"
) -> Any | TransferReverts:
    """Run the call on the latest block without sending it; return what the node answers."""
    call = {"from": sender, "to": to, "data": "0x" + data.hex()}
    try:
        return node.call(method, call, "latest")
    except RpcError as error:
        if not _is_revert(error):
            raise
        return TransferReverts(_find_reason(error))


def ask_nonce(node: RpcNode, address: str, block: str = "latest") -> int:
    """Return how many transactions of the account are in blocks: the first gas nonce that is not."""
    return _read_quantity(node.call("eth_getTransactionCount", address, block))


def ask_balance(node: RpcNode, address: str) -> int:
    """Return the account's ether, in wei."""
    return _read_quantity(node.call("eth_getBalance", address, "latest"))


def ask_fee_market(node: RpcNode) -> FeeMarket:
    """Return the base fee of the latest block, and the tip that the node suggests."""
    block = node.call("eth_getBlockByNumber", "latest", False)
    base_fee = cast("dict[str, Any]", block).get("baseFeePerGas") if isinstance(block, dict) else None
    return FeeMarket(_read_quantity(base_fee), _read_quantity(node.call("eth_maxPriorityFeePerGas")))


def is_any_successful(node: RpcNode, hashes: Iterable[str]) -> bool:
    """Return whether one of these transactions is in a block and did not revert."""
    receipts = (node.call("eth_getTransactionReceipt", each) for each in hashes)
    return any(isinstance(each, dict) and _has_succeeded(cast("dict[str, Any]", each)) for each in receipts)


def _has_succeeded(receipt: dict[str, Any]) -> bool:
    return receipt.get("status") == "0x1"


def _is_revert(error: RpcError) -> bool:
    return error.code == _REVERTED or (error.code is not None and "revert" in str(error).lower())


def _find_reason(error: RpcError) -> str:
    """Return the token's own words from `execution reverted: WORDS`."""
    return clean_text(str(error).partition("reverted")[2].strip(" :")) or "it gives no reason"


def _read_quantity(value: object) -> int:
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return int(value, 16)
    raise RpcError("the RPC node gave no number where one is due")
