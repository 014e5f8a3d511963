"""The fee of a transaction for its data on the layer below (L1), as on Base and other OP stack chains.

The account that pays for gas pays this fee as well, and no field of a transaction limits it.
"""

from typing import Final

from faregate.service.chain.abi import WORD, encode_call
from faregate.service.chain.node import ChainNode
from faregate.service.chain.rpc import RpcError

ORACLE: Final = "0x420000000000000000000000000000000000000F"
"""The GasPriceOracle, at the same address on every such chain."""


def ask_l1_fee(node: ChainNode, size: int) -> int:
    """Return the highest L1 fee of a transaction of `size` bytes now, in wei; 0 where there is no oracle.

    Raises `RpcError`.
    """
    try:
        return _call_oracle(node, encode_call("getL1FeeUpperBound(uint256)", size))
    except RpcError as error:
        if not error.is_revert:
            raise
    # The oracle is older than the Fjord upgrade. It charges by bytes, and most for those that are not zero.
    words = -(-size // WORD)
    return _call_oracle(node, encode_call("getL1Fee(bytes)", WORD, words * WORD, *[b"\xff" * WORD] * words))


def _call_oracle(node: ChainNode, data: str) -> int:
    call = {"to": ORACLE, "data": data}
    answer = node.call("eth_call", call, "latest")
    # Where there is no contract, a node answers `0x`.
    return 0 if answer == "0x" else node.read_quantity("eth_call", answer)
