"""What one node says of its chain, and where on it an authorization ended. Everything raises `RpcError`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from faregate.service.chain.abi import encode_call
from faregate.service.chain.evidence import (
    Block,
    ChainTransaction,
    FullBlock,
    Log,
    Quantity,
    Receipt,
    build_block_filter,
    build_end_filter,
    select_logs,
)
from faregate.service.chain.rpc import RpcError, RpcNode
from faregate.x402.models import SignedPayment
from faregate.x402.permit2 import PERMIT2
from faregate.x402.tokens import Token

SAFE_DEPTH: Final = 450
"""Blocks behind the latest that count as safe where a node does not know the tag: 15 minutes on Base, whose
safe block is about two minutes old.
"""
At = int | str
"""A block: its number, or a tag such as `latest`."""
LOG_BLOCKS: Final = 2_000
"""Blocks that one query covers at first. Where a node refuses that, fewer are asked for."""
NONCES_IN_WORD: Final = 256
"""Permit2 keeps a bit for each nonce."""
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_QUANTITY: Final[TypeAdapter[int]] = TypeAdapter(Quantity)
_LOGS: Final = TypeAdapter(tuple[Log, ...])


class ChainNode:
    """The questions of a chain reader to one node."""

    def __init__(self, node: RpcNode) -> None:
        self.host: Final = node.host
        self.call: Final = node.call

    def get_quantity(self, method: str, *params: object) -> int:
        """Call a method whose answer is a number."""
        return self.read_quantity(method, self.call(method, *params))

    def read_quantity(self, method: str, answer: Any) -> int:
        """Read a number out of an answer."""
        return self._read(method, _QUANTITY.validate_python, answer)

    def has_code(self, address: str, at: At = "latest") -> bool:
        """Return whether there is a contract at this address."""
        return self.call("eth_getCode", address, _name_block(at)) not in (None, "0x", "")

    def get_ether(self, address: str) -> int:
        """Return what the address has for gas, in wei."""
        return self.get_quantity("eth_getBalance", address, "latest")

    def get_nonce(self, address: str, at: At = "latest") -> int:
        """Return how many transactions of the account are in blocks: the first gas nonce that is not."""
        return self.get_quantity("eth_getTransactionCount", address, at)

    def get_block(self, at: At) -> Block | None:
        """Return a block, None if the node has none there."""
        answer = self.call("eth_getBlockByNumber", _name_block(at), False)
        return self._read_model("eth_getBlockByNumber", Block, answer)

    def get_full_block(self, number: int) -> FullBlock | None:
        """Return a block with all its transactions, None if the node has none there."""
        answer = self.call("eth_getBlockByNumber", hex(number), True)
        return self._read_model("eth_getBlockByNumber", FullBlock, answer)

    def get_head(self) -> Block:
        """Return the latest block."""
        head = self.get_block("latest")
        if head is None:
            raise RpcError(f"RPC node {self.host} has no block")
        return head

    def get_safe(self) -> Block:
        """Return the latest block that cannot be replaced, short of a fault of the layer below."""
        try:
            safe = self.get_block("safe")
        except RpcError as error:
            # A code is the node's own answer: it does not know the tag. Without one it was not reached.
            if error.code is None:
                raise
            safe = None
        if safe is None:
            safe = self.get_block(max(self.get_head().number - SAFE_DEPTH, 0))
        if safe is None:
            raise RpcError(f"RPC node {self.host} has no safe block")
        return safe

    def get_receipt(self, transaction_hash: str) -> Receipt | None:
        """Return the receipt of a transaction, None if it is in no block."""
        answer = self.call("eth_getTransactionReceipt", transaction_hash)
        receipt = self._read_model("eth_getTransactionReceipt", Receipt, answer)
        if receipt is not None and receipt.transactionHash != transaction_hash.lower():
            raise RpcError(f"RPC node {self.host} gave the receipt of another transaction")
        return receipt

    def get_transaction(self, transaction_hash: str) -> ChainTransaction | None:
        """Return a transaction, None if the node does not know it."""
        answer = self.call("eth_getTransactionByHash", transaction_hash)
        transaction = self._read_model("eth_getTransactionByHash", ChainTransaction, answer)
        if transaction is not None and transaction.hash != transaction_hash.lower():
            raise RpcError(f"RPC node {self.host} gave another transaction")
        return transaction

    def find_logs(self, token: Token, payment: SignedPayment, first: int, last: int) -> tuple[Log, ...]:
        """Find where the authorization was used or cancelled, from block `first` to `last`."""
        return self.get_logs(build_end_filter(token, payment, first, last))

    def get_end(self, token: Token, payment: SignedPayment, end: Log) -> Receipt:
        """Return what the transaction of the log `end` did with the authorization: the logs that tell it.

        One query gives all of them: a node behind others cannot leave the transfer out.
        """
        try:
            logs = self.get_logs(build_block_filter(token, payment, end.blockNumber))
        except RpcError:
            # Strangers can fill a block with transfers of nothing. A receipt holds one transaction only.
            receipt = self.get_receipt(end.transactionHash)
            if receipt is None:
                raise
            return receipt
        return select_logs(end, logs)

    def check_logs(self, token: Token) -> None:
        """Ask for logs as a search does; raise `RpcError` if the node does not give them."""
        last = self.get_head().number
        first = max(0, last - LOG_BLOCKS + 1)
        self.get_logs(
            {
                "address": token.address,
                "fromBlock": hex(first),
                "toBlock": hex(last),
                "topics": [f"0x{0:064x}"],  # of no event
            }
        )

    def get_logs(self, wanted: dict[str, Any]) -> tuple[Log, ...]:
        """Return the logs that this filter of `eth_getLogs` selects."""
        return self._read("eth_getLogs", _LOGS.validate_python, self.call("eth_getLogs", wanted))

    def get_balance(self, token: Token, address: str, at: At = "latest") -> int:
        return self._ask_contract(token.address, encode_call("balanceOf(address)", address), at)

    def get_allowance(self, token: Token, owner: str, at: At = "latest") -> int:
        """Return what Permit2 may take of an owner, in atomic units."""
        return self._ask_contract(
            token.address, encode_call("allowance(address,address)", owner, PERMIT2), at
        )

    def get_domain_separator(self, token: Token) -> bytes:
        """Return the hash of the EIP-712 domain that the token signs with."""
        return self._call_contract(token.address, encode_call("DOMAIN_SEPARATOR()"))

    def is_authorization_used(self, token: Token, payer: str, nonce: str, at: At = "latest") -> bool:
        """Return whether the authorization was used or cancelled, as of a block."""
        if not nonce.startswith("0x"):
            word, bit = divmod(int(nonce), NONCES_IN_WORD)
            bits = self._ask_contract(PERMIT2, encode_call("nonceBitmap(address,uint256)", payer, word), at)
            return bool(bits >> bit & 1)
        call = encode_call("authorizationState(address,bytes32)", payer, nonce)
        return self._ask_contract(token.address, call, at) != 0

    def _ask_contract(self, address: str, call: str, at: At) -> int:
        return int.from_bytes(self._call_contract(address, call, at), "big")

    def _call_contract(self, address: str, call: str, at: At = "latest") -> bytes:
        answer = self.call("eth_call", {"to": address, "data": call}, _name_block(at))
        return self._read("eth_call", _parse_word, answer)

    def _read_model(self, method: str, model: type[M], answer: Any) -> M | None:
        return None if answer is None else self._read(method, model.model_validate, answer)

    def _read(self, method: str, parse: Callable[[Any], T], answer: Any) -> T:
        try:
            return parse(answer)
        except (ValidationError, ValueError) as error:
            # Named by its type only: the text of pydantic repeats what was read.
            reason = f"the answer cannot be read ({type(error).__name__})"
        raise RpcError(f"RPC node {self.host}, {method}: {reason}")


def _name_block(at: At) -> str:
    return at if isinstance(at, str) else hex(at)


def _parse_word(answer: Any) -> bytes:
    """Parse the one word that a function returns. Where there is no contract, a node answers `0x`."""
    word = bytes.fromhex(str(answer).removeprefix("0x"))
    if len(word) != 32:
        raise ValueError("one word was expected")
    return word


def find_log(node: ChainNode, token: Token, payment: SignedPayment, first: int, last: int) -> Log | None:
    """Find where the authorization was used or cancelled, known to be so in block `last`; None if unfound.

    A long range is halved by what the token says of its middle block. A node without old states cannot say
    that; then the range is searched query by query. Nodes limit what one `eth_getLogs` may cover.
    """
    width = LOG_BLOCKS
    while True:
        if last - first < width:
            try:
                return _get_only(node.find_logs(token, payment, first, last))
            except RpcError as error:
                # An answer of the node: the range is too wide for it. One block cannot be.
                if error.code is None or first == last:
                    raise
                width = (last - first + 1) // 2
        middle = (first + last) // 2
        try:
            was_used = node.is_authorization_used(token, payment.payer, payment.nonce, middle)
        except RpcError as error:
            if error.code is None:
                raise
            # No archive: it has no state of that block.
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
