"""Read what addresses received, from a chain's logs: each transfer, and the authorization that it used.

A token logs `AuthorizationUsed` right before the `Transfer` that it stands for (`evidence.py`). Permit2 logs
nothing: its nonce is in the call of the transaction (`permit_calls.py`), so each transfer without such a log
costs a question. One without either was made in another way, such as from a wallet.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from faregate.service.chain.abi import encode_topic
from faregate.service.chain.evidence import TRANSFER, USED, Log
from faregate.service.chain.majority_view import ChainView, count_disagreements
from faregate.service.chain.node import LOG_BLOCKS, ChainNode
from faregate.service.chain.permit_calls import read_permit_call
from faregate.service.chain.rpc import RpcError, RpcNode
from faregate.x402.tokens import Token

_ADDRESSES: Final = 100
"""How many addresses one query names: nodes limit how long it may be."""
_ADDRESS_DIGITS: Final = 40
_POLL_SECONDS: Final = 0.5
_LOGS: Final = TypeAdapter(tuple[Log, ...])
_Place = tuple[str, int, str, str]
"""Where a log is: the transaction, its index, its token, and the payer that it names."""


@dataclass(frozen=True, slots=True)
class ReceivedTransfer:
    """A transfer of a token from `sender` to an address; addresses and hashes in lower case.

    `nonce` is that of the authorization that it used, None if it used none. `log_index` counts in its block.
    """

    asset: str
    sender: str
    to: str
    value: int
    nonce: str | None
    transaction_hash: str
    block: int
    log_index: int


@dataclass(frozen=True, slots=True)
class DisputedTransfer:
    """A transfer that as many nodes show as do not, by their hosts."""

    transfer: ReceivedTransfer
    shown_by: tuple[str, ...]
    hidden_by: tuple[str, ...]

    def __str__(self) -> str:
        return f"shown by {', '.join(self.shown_by)}, not by {', '.join(self.hidden_by)}"


@dataclass(frozen=True, slots=True)
class TransferPage:
    """What was received from block `first` to `last`. More than half of the nodes show `transfers`."""

    first: int
    last: int
    transfers: tuple[ReceivedTransfer, ...]
    disputed: tuple[DisputedTransfer, ...] = ()


class _TooManyLogs(Exception):
    """A node refuses so many blocks at once."""


def read_transfers(
    view: ChainView, tokens: Sequence[Token], addresses: Iterable[str], first: int, patience: float = 0.0
) -> Generator[TransferPage]:
    """Read what these addresses received from block `first` to the view's latest, in pages, oldest first.

    Transfers of nothing are left out: anybody can make them in the name of others. What nodes disagree about
    in blocks that are not safe is asked again for `patience` seconds: a reorganisation reaches one node
    before another. Raises `PaymentsUnavailable`.
    """
    assets = [token.address.lower() for token in tokens]
    groups = _cut(sorted({address.lower() for address in addresses}))
    width, last = LOG_BLOCKS, view.head.number
    given_up_at = monotonic() + patience
    while groups and first <= last:
        end = min(last, first + width - 1)
        question = partial(_read_page, assets=assets, groups=groups, first=first, last=end)
        try:
            answers = view.ask_each(question)
        except _TooManyLogs:
            width = (end - first + 1) // 2
            continue
        page = _compare_answers(answers, first, end)
        if page.disputed and end > view.safe.number and monotonic() < given_up_at:
            time.sleep(_POLL_SECONDS)
            continue
        count_disagreements(_list_dissenters(page, answers))
        yield page
        first = end + 1
        # A node may refuse blocks that hold much, and give many that hold little.
        width = min(LOG_BLOCKS, 2 * width)


def _compare_answers(
    answers: Mapping[RpcNode, tuple[ReceivedTransfer, ...]], first: int, last: int
) -> TransferPage:
    """Tell what more than half of the nodes show from what as many show as do not."""
    # What a node shows twice counts once.
    shown = Counter(transfer for answer in answers.values() for transfer in set(answer))
    agreed = [transfer for transfer, count in shown.items() if 2 * count > len(answers)]
    disputed = [transfer for transfer, count in shown.items() if 2 * count == len(answers)]
    return TransferPage(
        first,
        last,
        tuple(sorted(agreed, key=_get_place)),
        tuple(_describe_dispute(transfer, answers) for transfer in sorted(disputed, key=_get_place)),
    )


def _list_dissenters(
    page: TransferPage, answers: Mapping[RpcNode, tuple[ReceivedTransfer, ...]]
) -> list[RpcNode]:
    """List the nodes that more than half contradict, or all of them if there is no such half."""
    return [node for node, answer in answers.items() if page.disputed or {*answer} != {*page.transfers}]


def _describe_dispute(
    transfer: ReceivedTransfer, answers: Mapping[RpcNode, tuple[ReceivedTransfer, ...]]
) -> DisputedTransfer:
    shown_by = tuple(node.host for node, answer in answers.items() if transfer in answer)
    hidden_by = tuple(node.host for node, answer in answers.items() if transfer not in answer)
    return DisputedTransfer(transfer, shown_by, hidden_by)


def list_transfers_of(
    view: ChainView, token: Token, transaction_hash: str, to: str
) -> tuple[ReceivedTransfer, ...] | None:
    """List what one transaction moved to this address; None if it is in no block or reverted.

    Raises `NodesDisagree`, `PaymentsUnavailable`.
    """

    def ask(node: ChainNode) -> tuple[ReceivedTransfer, ...] | None:
        receipt = node.get_receipt(transaction_hash)
        if receipt is None or receipt.status != 1:
            return None
        block = receipt.blockNumber
        page = _read_page(node, assets=[token.address.lower()], groups=[(to,)], first=block, last=block)
        return tuple(transfer for transfer in page if transfer.transaction_hash == receipt.transactionHash)

    return view.ask(ask)


def find_block_at(view: ChainView, timestamp: float) -> int:
    """Find the first block that is not older than this time (Unix seconds); the latest if none is.

    Raises `NodesDisagree`, `PaymentsUnavailable`.
    """
    low, high = 0, view.head.number
    while low < high:
        middle = (low + high) // 2
        if get_block_time(view, middle) < timestamp:
            low = middle + 1
        else:
            high = middle
    return low


def get_block_time(view: ChainView, number: int) -> int:
    """Return when this block was made, in Unix seconds. Raises `NodesDisagree`, `PaymentsUnavailable`."""

    def ask(node: ChainNode) -> int:
        block = node.get_block(number)
        if block is None:
            raise RpcError(f"RPC node {node.host} has no block {number}")
        return block.timestamp

    return view.ask(ask)


def _cut(values: Sequence[str]) -> list[Sequence[str]]:
    return [values[start : start + _ADDRESSES] for start in range(0, len(values), _ADDRESSES)]


def _read_page(
    node: ChainNode, *, assets: Sequence[str], groups: Sequence[Sequence[str]], first: int, last: int
) -> tuple[ReceivedTransfer, ...]:
    """Read the transfers of these blocks. Raises `RpcError`, and `_TooManyLogs` for several blocks."""
    logs: list[Log] = []
    for group in groups:
        topics = [TRANSFER, None, [encode_topic(address) for address in group]]
        logs += [log for log in _read_logs(node, assets, topics, first, last) if _is_transfer(log)]
    nonces = _read_nonces(node, assets, logs)
    return tuple(_find_permit(node, _build_transfer(log, nonces)) for log in logs)


def _read_nonces(node: ChainNode, assets: Sequence[str], transfers: Sequence[Log]) -> dict[_Place, str]:
    """Read the nonces of the authorizations that the payers of these transfers used, by their place."""
    blocks = [log.blockNumber for log in transfers]
    nonces: dict[_Place, str] = {}
    for group in _cut(sorted({log.topics[1] for log in transfers})):
        logs = _read_logs(node, assets, [USED, group], min(blocks), max(blocks))
        nonces |= {_find_place(log, log.logIndex): log.topics[2] for log in logs if len(log.topics) == 3}
    return nonces


def _find_permit(node: ChainNode, transfer: ReceivedTransfer) -> ReceivedTransfer:
    """Add the nonce of Permit2 to a transfer that used no authorization of the token."""
    if transfer.nonce is not None:
        return transfer
    transaction = node.get_transaction(transfer.transaction_hash)
    call = None if transaction is None else read_permit_call(transaction)
    if call is None or (call.token, call.payer, call.to, call.amount) != (
        transfer.asset,
        transfer.sender,
        transfer.to,
        transfer.value,
    ):
        return transfer
    return replace(transfer, nonce=str(call.nonce))


def _read_logs(
    node: ChainNode, assets: Sequence[str], topics: Sequence[Any], first: int, last: int
) -> tuple[Log, ...]:
    wanted = {"address": assets, "fromBlock": hex(first), "toBlock": hex(last), "topics": topics}
    try:
        return _LOGS.validate_python(node.call("eth_getLogs", wanted))
    except ValidationError:
        raise RpcError(f"RPC node {node.host}, eth_getLogs: the answer cannot be read") from None
    except RpcError as error:
        # Nodes limit what an answer may hold, each in its own words. One that answers nothing is away.
        if first == last or node.get_head().number < last:
            raise
        raise _TooManyLogs from error


def _get_place(transfer: ReceivedTransfer) -> tuple[int, int]:
    return transfer.block, transfer.log_index


def _is_transfer(log: Log) -> bool:
    return len(log.topics) == 3 and log.data != "0x" and int(log.data, 16) > 0


def _find_place(log: Log, index: int) -> _Place:
    return log.transactionHash, index, log.address, log.topics[1]


def _build_transfer(log: Log, nonces: dict[_Place, str]) -> ReceivedTransfer:
    return ReceivedTransfer(
        asset=log.address,
        sender="0x" + log.topics[1][-_ADDRESS_DIGITS:],
        to="0x" + log.topics[2][-_ADDRESS_DIGITS:],
        value=int(log.data, 16),
        nonce=nonces.get(_find_place(log, log.logIndex - 1)),
        transaction_hash=log.transactionHash,
        block=log.blockNumber,
        log_index=log.logIndex,
    )
