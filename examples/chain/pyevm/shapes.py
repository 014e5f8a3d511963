"""How JSON-RPC shows what py-evm has."""

from collections.abc import Sequence
from time import time
from typing import Any, Final

from eth.constants import BLANK_ROOT_HASH

GAS: Final = 30_000_000
"""Of a block."""
TIP: Final = 10**9
NOBODY: Final = b"\0" * 20


def build_genesis() -> dict[str, Any]:
    zeros = {
        "coinbase": NOBODY,
        "mix_hash": b"\0" * 32,
        "nonce": b"\0" * 8,
        "extra_data": b"",
        "difficulty": 0,
    }
    roots = {"receipt_root": BLANK_ROOT_HASH, "transaction_root": BLANK_ROOT_HASH}
    return {**zeros, **roots, "gas_limit": GAS, "timestamp": int(time())}


def build_account(balance: int = 0, code: bytes = b"") -> dict[str, Any]:
    return {"balance": balance, "nonce": 0, "code": code, "storage": {}}


def show_log(log: Any, place: dict[str, str], index: int) -> dict[str, Any]:
    return {
        **place,
        "logIndex": hex(index),
        "address": show(log.address),
        "topics": [f"0x{topic:064x}" for topic in log.topics],
        "data": show(log.data),
        "removed": False,
    }


def has_topics(topics: Sequence[str], wanted: Sequence[str | Sequence[str] | None]) -> bool:
    """Whether each topic is one of those wanted at its place; None is any."""
    return len(topics) >= len(wanted) and all(
        one is None or topic in ([one] if isinstance(one, str) else one)
        for topic, one in zip(topics, wanted, strict=False)
    )


def read_reason(output: bytes) -> str:
    """Read the text of `Error(string)`."""
    return output[68 : 68 + int.from_bytes(output[36:68], "big")].decode(errors="replace")


def to_bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def show(data: bytes) -> str:
    return "0x" + data.hex()


def show_receipt(transaction: Any, receipt: Any, computation: Any, place: dict[str, str]) -> dict[str, Any]:
    """Show the receipt of a transaction at this place."""
    return {
        **show_parties(transaction, place),
        "status": hex(computation.is_success),
        "gasUsed": hex(receipt.gas_used),
        "cumulativeGasUsed": hex(receipt.gas_used),
        "effectiveGasPrice": hex(TIP),
        "contractAddress": None,
        "logsBloom": "0x" + receipt.bloom.to_bytes(256, "big").hex(),
        "logs": [show_log(log, place, index) for index, log in enumerate(receipt.logs)],
    }


def show_transaction(transaction: Any, place: dict[str, str]) -> dict[str, Any]:
    """Show a transaction at this place."""
    return {
        **show_parties(transaction, place),
        "hash": show(transaction.hash),
        "nonce": hex(transaction.nonce),
        "gas": hex(transaction.gas),
        "value": hex(transaction.value),
        "input": show(transaction.data),
    }


def show_parties(transaction: Any, place: dict[str, str]) -> dict[str, Any]:
    return {
        **place,
        "type": hex(transaction.type_id or 0),
        "from": show(transaction.sender),
        "to": show(transaction.to) if transaction.to else None,
    }
