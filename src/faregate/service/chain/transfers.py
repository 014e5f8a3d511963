"""Read what addresses received, from a chain's logs: each transfer, and the authorization that it used.

A token logs `AuthorizationUsed` right before the `Transfer` that it stands for (`evidence.py`). A
transfer without one was made in another way, such as from a wallet.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from faregate.rules.payments import PaymentsUnavailable
from faregate.service.chain.abi import encode_topic
from faregate.service.chain.chain import ChainReader
from faregate.service.chain.evidence import TRANSFER, USED, Log
from faregate.service.chain.node import LOG_BLOCKS, ChainNode
from faregate.service.chain.rpc import RpcError
from faregate.x402.tokens import Token

_ADDRESSES: Final = 100
"""How many addresses one query names: nodes limit how long it may be."""
_ADDRESS_DIGITS: Final = 40
_LOGS: Final = TypeAdapter(tuple[Log, ...])
_Place = tuple[str, int, str, str]
"""Where a log is: the transaction, its index, its token, and the payer that it names."""


@dataclass(frozen=True, slots=True)
class ReceivedTransfer:
    """A transfer of a token to an address; addresses and hashes in lower case.

    `nonce` is that of the authorization that it used, None if it used none. `log_index` counts in its block.
    """

    asset: str
    payer: str
    to: str
    value: int
    nonce: str | None
    transaction_hash: str
    block: int
    log_index: int


@dataclass(frozen=True, slots=True)
class TransferPage:
    """What was received from block `first` to `last`."""

    first: int
    last: int
    transfers: tuple[ReceivedTransfer, ...]


def read_transfers(
    chain: ChainReader, tokens: Sequence[Token], addresses: Iterable[str], first: int, last: int
) -> Generator[TransferPage]:
    """Read what these addresses received from block `first` to `last`, in pages, oldest first.

    Transfers of nothing are left out: anybody can make them in the name of others. Raises
    `PaymentsUnavailable`.
    """
    assets = [token.address.lower() for token in tokens]
    groups = _cut(sorted({address.lower() for address in addresses}))
    width = LOG_BLOCKS
    while groups and first <= last:
        end = min(last, first + width - 1)
        found = _read_page(chain, assets, groups, first, end)
        if found is None:
            width = (end - first + 1) // 2
            continue
        yield TransferPage(first, end, found)
        first = end + 1
        # The node may refuse blocks that hold much, and give many that hold little.
        width = min(LOG_BLOCKS, 2 * width)


def list_transfers_of(
    chain: ChainReader, token: Token, transaction_hash: str, to: str
) -> tuple[ReceivedTransfer, ...] | None:
    """List what one transaction moved to this address; None if it is in no block or reverted.

    Raises `PaymentsUnavailable`.
    """
    receipt = chain.ask(lambda node: node.get_receipt(transaction_hash))
    if receipt is None or receipt.status != 1:
        return None
    page = _read_page(chain, [token.address.lower()], [(to,)], receipt.blockNumber, receipt.blockNumber)
    return tuple(one for one in page or () if one.transaction_hash == receipt.transactionHash)


def find_block_at(chain: ChainReader, timestamp: float) -> int:
    """Find the first block that is not older than this time (Unix seconds); the latest if none is.

    Raises `PaymentsUnavailable`.
    """
    low, high = 0, chain.get_head()
    while low < high:
        middle = (low + high) // 2
        if get_block_time(chain, middle) < timestamp:
            low = middle + 1
        else:
            high = middle
    return low


def get_block_time(chain: ChainReader, number: int) -> int:
    """Return when this block was made, in Unix seconds. Raises `PaymentsUnavailable`."""
    block = chain.ask(lambda node: node.get_block(number))
    if block is None:
        raise PaymentsUnavailable(f"no node of chain {chain.chain} has block {number}")
    return block.timestamp


def _cut(values: Sequence[str]) -> list[Sequence[str]]:
    return [values[start : start + _ADDRESSES] for start in range(0, len(values), _ADDRESSES)]


def _read_page(
    chain: ChainReader, assets: Sequence[str], groups: Sequence[Sequence[str]], first: int, last: int
) -> tuple[ReceivedTransfer, ...] | None:
    """Read the transfers of these blocks, None if they are too many for one answer."""
    found: list[Log] = []
    for group in groups:
        topics = [TRANSFER, None, [encode_topic(one) for one in group]]
        logs = _read_logs(chain, assets, topics, first, last)
        if logs is None:
            return None
        found += [log for log in logs if _is_transfer(log)]
    nonces = _read_nonces(chain, assets, found)
    if nonces is None:
        return None
    return tuple(_build_transfer(log, nonces) for log in sorted(found, key=_get_order))


def _read_nonces(
    chain: ChainReader, assets: Sequence[str], transfers: Sequence[Log]
) -> dict[_Place, str] | None:
    """Read the nonces of the authorizations that the payers of these transfers used, by their place."""
    blocks = [log.blockNumber for log in transfers]
    nonces: dict[_Place, str] = {}
    for group in _cut(sorted({log.topics[1] for log in transfers})):
        logs = _read_logs(chain, assets, [USED, group], min(blocks), max(blocks))
        if logs is None:
            return None
        nonces |= {_find_place(log, log.logIndex): log.topics[2] for log in logs if len(log.topics) == 3}
    return nonces


def _read_logs(
    chain: ChainReader, assets: Sequence[str], topics: Sequence[Any], first: int, last: int
) -> tuple[Log, ...] | None:
    wanted = {"address": assets, "fromBlock": hex(first), "toBlock": hex(last), "topics": topics}

    def ask(node: ChainNode) -> tuple[Log, ...] | None:
        try:
            return _LOGS.validate_python(node.call("eth_getLogs", wanted))
        except ValidationError:
            raise RpcError(f"RPC node {node.host}, eth_getLogs: the answer cannot be read") from None
        except RpcError:
            # Nodes limit what an answer may hold, each in its own words. One that answers nothing is away.
            if first == last or node.get_head().number < last:
                raise
            return None

    return chain.ask(ask)


def _get_order(log: Log) -> tuple[int, int]:
    return log.blockNumber, log.logIndex


def _is_transfer(log: Log) -> bool:
    return len(log.topics) == 3 and log.data != "0x" and int(log.data, 16) > 0


def _find_place(log: Log, index: int) -> _Place:
    return log.transactionHash, index, log.address, log.topics[1]


def _build_transfer(log: Log, nonces: dict[_Place, str]) -> ReceivedTransfer:
    return ReceivedTransfer(
        asset=log.address,
        payer="0x" + log.topics[1][-_ADDRESS_DIGITS:],
        to="0x" + log.topics[2][-_ADDRESS_DIGITS:],
        value=int(log.data, 16),
        nonce=nonces.get(_find_place(log, log.logIndex - 1)),
        transaction_hash=log.transactionHash,
        block=log.blockNumber,
        log_index=log.logIndex,
    )
