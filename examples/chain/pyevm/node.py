"""The chain of py-evm, and its JSON-RPC methods."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from eth.abc import BlockHeaderAPI
from eth.chains.base import MiningChain
from eth.db.atomic import AtomicDB
from eth.exceptions import PyEVMError, Revert
from eth.vm.forks.cancun import CancunVM
from eth.vm.spoof import SpoofTransaction
from eth_keys.datatypes import PrivateKey
from eth_utils.address import to_canonical_address
from eth_utils.exceptions import ValidationError

from examples.chain.facilitator import GAS_KEYS
from examples.chain.pyevm.shapes import (
    GAS,
    NOBODY,
    TIP,
    build_account,
    build_genesis,
    has_topics,
    read_reason,
    show,
    show_receipt,
    show_transaction,
    to_bytes,
)
from examples.chain.token import encode_creation
from faregate.x402.tokens import TOKENS

_ACCOUNT: Final = PrivateKey(b"\x07" * 32)
"""The account of the node itself: it pays for what `LocalChain` sends."""
_REVERTED: Final = 3
_REFUSED: Final = -32000
_UNKNOWN_METHOD: Final = -32601


class Refusal(Exception):
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Node:
    """A chain with these contracts, and its JSON-RPC methods. One call at a time."""

    def __init__(self, chain: int, codes: dict[str, str]) -> None:
        kind: Any = MiningChain.configure(
            __name__="LocalChain", vm_configuration=((0, CancunVM),), chain_id=chain
        )
        keys = (_ACCOUNT, *(PrivateKey(to_bytes(key)) for key in GAS_KEYS))
        state = {key.public_key.to_canonical_address(): build_account(balance=10**24) for key in keys}
        for address, code in codes.items():
            state[to_canonical_address(address)] = build_account(code=to_bytes(code))
        self._chain = kind.from_genesis(AtomicDB(), build_genesis(), state)
        self._chain_id = chain
        self._receipts: dict[str, dict[str, Any]] = {}
        self._transactions: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._methods: Final[dict[str, Callable[..., Any]]] = {
            "eth_chainId": self.get_chain_id,
            "eth_blockNumber": self.get_head_number,
            "eth_getBlockByNumber": self.show_block,
            "eth_gasPrice": self.get_gas_price,
            "eth_maxPriorityFeePerGas": self.get_tip,
            "eth_feeHistory": self.show_fees,
            "eth_accounts": self.list_accounts,
            "eth_getBalance": self.get_balance,
            "eth_getTransactionCount": self.get_nonce,
            "eth_getCode": self.get_code,
            "eth_getTransactionReceipt": self.get_receipt,
            "eth_getTransactionByHash": self.get_transaction,
            "eth_getLogs": self.find_logs,
            "eth_call": self.call,
            "eth_estimateGas": self.estimate_gas,
            "eth_sendRawTransaction": self.send_raw,
            "eth_sendTransaction": self.send,
            "anvil_getAutomine": self.is_mining,
            "anvil_mine": self.mine,
            "anvil_setBalance": self.set_balance,
        }

    def answer(self, body: bytes) -> dict[str, Any]:
        """Answer a JSON-RPC request."""
        asked = json.loads(body)
        head = {"jsonrpc": "2.0", "id": asked.get("id")}
        method = self._methods.get(asked["method"])
        try:
            if method is None:
                raise Refusal(_UNKNOWN_METHOD, f"py-evm, which stands in for anvil, has no {asked['method']}")
            with self._lock:
                return {**head, "result": method(*asked.get("params", ()))}
        except Refusal as refusal:
            return {**head, "error": refusal.error}
        except (PyEVMError, ValidationError) as error:
            return {**head, "error": {"code": _REFUSED, "message": str(error)}}

    # Reading

    @property
    def _head(self) -> BlockHeaderAPI:
        head: BlockHeaderAPI = self._chain.get_canonical_head()
        return head

    @property
    def _base_fee(self) -> int:
        return int(self._head.base_fee_per_gas or 0)

    def get_chain_id(self) -> str:
        return hex(self._chain_id)

    def get_head_number(self) -> str:
        return hex(self._head.block_number)

    def get_gas_price(self) -> str:
        return hex(self._base_fee + TIP)

    def get_tip(self) -> str:
        return hex(TIP)

    def list_accounts(self) -> list[str]:
        return [_ACCOUNT.public_key.to_checksum_address()]

    def get_balance(self, address: str, at: str = "latest") -> str:
        return hex(self._state(at).get_balance(to_bytes(address)))

    def get_nonce(self, address: str, at: str = "latest") -> str:
        return hex(self._state(at).get_nonce(to_bytes(address)))

    def get_code(self, address: str, at: str = "latest") -> str:
        return show(self._state(at).get_code(to_bytes(address)))

    def get_receipt(self, transaction_hash: str) -> dict[str, Any] | None:
        return self._receipts.get(transaction_hash.lower())

    def get_transaction(self, transaction_hash: str) -> dict[str, Any] | None:
        return self._transactions.get(transaction_hash.lower())

    def is_mining(self) -> bool:
        """Return that a block is mined for each transaction."""
        return True

    def _find_header(self, at: str) -> BlockHeaderAPI | None:
        """Find a block by its number or tag. The safe block is one behind the latest."""
        latest = self._head.block_number
        named = {"latest": latest, "pending": latest, "earliest": 0}
        named |= dict.fromkeys(("safe", "finalized"), max(latest - 1, 0))
        number = named[at] if at in named else int(at, 16)
        if number > latest:
            return None
        header: BlockHeaderAPI = self._chain.get_canonical_block_header_by_number(number)
        return header

    def _get_header(self, at: str) -> BlockHeaderAPI:
        header = self._find_header(at)
        if header is None:
            raise Refusal(_REFUSED, f"there is no block {at}")
        return header

    def _state(self, at: str) -> Any:
        return self._chain.get_vm(self._get_header(at)).state

    def show_block(self, at: str, _full: bool = False) -> dict[str, Any] | None:
        header = self._find_header(at)
        if header is None:
            return None
        return {
            "number": hex(header.block_number),
            "hash": show(header.hash),
            "parentHash": show(header.parent_hash),
            "timestamp": hex(header.timestamp),
            "gasLimit": hex(header.gas_limit),
            "gasUsed": hex(header.gas_used),
            "baseFeePerGas": hex(header.base_fee_per_gas or 0),
            "transactions": [
                key for key, one in self._receipts.items() if one["blockNumber"] == hex(header.block_number)
            ],
        }

    def show_fees(self, count: str, newest: str, percentiles: Sequence[float] = ()) -> dict[str, Any]:
        blocks = min(int(str(count), 0), self._get_header(newest).block_number + 1)
        return {
            "oldestBlock": hex(self._get_header(newest).block_number - blocks + 1),
            "baseFeePerGas": [hex(self._base_fee)] * (blocks + 1),
            "gasUsedRatio": [0.0] * blocks,
            "reward": [[hex(TIP)] * len(percentiles)] * blocks,
        }

    def find_logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        first = self._get_header(wanted.get("fromBlock", "latest")).block_number
        last = int(self._get_header(wanted.get("toBlock", "latest")).block_number)
        logs = (log for receipt in self._receipts.values() for log in receipt["logs"])
        return [
            log
            for log in logs
            if first <= int(log["blockNumber"], 16) <= last
            and log["address"] == str(wanted.get("address", log["address"])).lower()
            and has_topics(log["topics"], wanted.get("topics", ()))
        ]

    def call(self, request: dict[str, Any], at: str = "latest") -> str:
        """Run a call on a block's state, and return what it returns. Raises `Refusal`."""
        return show(self._try(self._chain.get_transaction_result, request, at))

    def estimate_gas(self, request: dict[str, Any], at: str = "latest") -> str:
        return hex(self._try(self._chain.estimate_gas, request, at))

    def _try(self, ask: Callable[..., Any], request: dict[str, Any], at: str) -> Any:
        sender = to_bytes(request.get("from", "0x" + NOBODY.hex()))
        unsigned = self._chain.create_unsigned_transaction(
            nonce=self._state(at).get_nonce(sender),
            gas_price=self._base_fee,
            gas=int(request.get("gas", hex(GAS)), 16),
            to=to_bytes(request.get("to", "0x")),
            value=int(request.get("value", "0x0"), 16),
            data=to_bytes(request.get("data") or request.get("input") or "0x"),
        )
        try:
            return ask(SpoofTransaction(unsigned, from_=sender), self._get_header(at))
        except Revert as revert:
            output = bytes(revert.args[0]) if revert.args else b""
            raise Refusal(_REVERTED, f"execution reverted: {read_reason(output)}", show(output)) from None

    # Sending

    def send_raw(self, raw: str) -> str:
        transaction = self._chain.get_vm().get_transaction_builder().decode(to_bytes(raw))
        if show(transaction.hash) in self._receipts:
            raise Refusal(_REFUSED, "already known")
        if transaction.nonce < self._state("latest").get_nonce(transaction.sender):
            raise Refusal(_REFUSED, "nonce too low")
        self._mine([transaction])
        return show(transaction.hash)

    def send(self, request: dict[str, Any]) -> str:
        unsigned = self._chain.create_unsigned_transaction(
            nonce=self._state("latest").get_nonce(_ACCOUNT.public_key.to_canonical_address()),
            gas_price=self._base_fee * 2 + TIP,
            gas=int(request.get("gas", "0x0"), 16) or 1_000_000,
            to=to_bytes(request["to"]),
            value=int(request.get("value", "0x0"), 16),
            data=to_bytes(request.get("data", "0x")),
        )
        signed = unsigned.as_signed_transaction(_ACCOUNT, chain_id=self._chain_id)
        self._mine([signed])
        return show(signed.hash)

    def mine(self, blocks: str = "0x1") -> None:
        """Mine empty blocks."""
        for _ in range(int(blocks, 16)):
            self._mine([])

    def set_balance(self, address: str, balance: str) -> None:
        """Give an address ether until it has as much; it keeps what it has above."""
        missing = int(balance, 16) - self._state("latest").get_balance(to_bytes(address))
        if missing > 0:
            self.send({"to": address, "value": hex(missing)})

    def _mine(self, transactions: Sequence[Any]) -> None:
        """Mine a block, now."""
        result, receipts, computations = self._chain.mine_all(transactions)
        header = result.imported_block.header
        place = {
            "blockHash": show(header.hash),
            "blockNumber": hex(header.block_number),
            "transactionIndex": "0x0",
        }
        for transaction, receipt, computation in zip(transactions, receipts, computations, strict=True):
            place["transactionHash"] = show(transaction.hash)
            self._receipts[place["transactionHash"]] = show_receipt(transaction, receipt, computation, place)
            self._transactions[place["transactionHash"]] = show_transaction(transaction, place)


def build_node(chain: int) -> Node:
    """Build a chain with our tokens at their addresses."""
    empty = Node(chain, {})
    tokens = [token for token in TOKENS.values() if token.chain == chain]
    return Node(chain, {token.address: empty.call({"data": encode_creation(token)}) for token in tokens})
