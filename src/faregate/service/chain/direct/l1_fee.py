"""What a transaction pays for its data on the layer below. Chains of the OP stack, such as Base, take it.

It comes on top of gas, out of the same account, and no field of a transaction limits it.
"""

from typing import Final

from faregate.service.chain.abi import WORD, encode_call
from faregate.service.chain.node import ChainNode
from faregate.service.chain.rpc import RpcError

ORACLE: Final = "0x420000000000000000000000000000000000000F"
"""The GasPriceOracle, at the same address on every such chain."""


def ask_l1_fee(node: ChainNode, size: int) -> int:
    """Return what a transaction of `size` bytes pays at most now, in wei; 0 on a chain without the oracle.

    Raises `RpcError`.
    """
    try:
        return _call(node, encode_call("getL1FeeUpperBound(uint256)", size))
    except RpcError as error:
        if not error.is_revert:
            raise
    # An oracle from before the upgrade Fjord. It counts bytes, those that are not zero most.
    words = -(-size // WORD)
    return _call(node, encode_call("getL1Fee(bytes)", WORD, words * WORD, *[b"\xff" * WORD] * words))


def _call(node: ChainNode, data: str) -> int:
    call = {"to": ORACLE, "data": data}
    answer = node.call("eth_call", call, "latest")
    # Where there is no contract, a node answers `0x`.
    return 0 if answer == "0x" else node.read_quantity("eth_call", answer)
