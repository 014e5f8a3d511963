"""What the logs of a transaction prove about an authorization. Pure.

A token logs `AuthorizationUsed`, and in the next log the `Transfer` it stands for (FiatTokenV2 of Circle).
One transaction may hold any number of transfers, also those of strangers, so only the log right after the
authorization's own counts: a transfer of the same value elsewhere in it pays for something else.

The settler of a payment chooses what else its transaction logs, so its receipt may be large. The token's
logs that name the payer are enough.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from faregate.service.chain.abi import encode_topic, encode_word, hash_event
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

TRANSFER: Final = hash_event("Transfer(address,address,uint256)")
USED: Final = hash_event("AuthorizationUsed(address,bytes32)")
CANCELED: Final = hash_event("AuthorizationCanceled(address,bytes32)")


def _parse_quantity(value: Any) -> int:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise ValueError("a quantity is hex that starts with 0x")
    return int(value, 16)


# In this order pydantic itself compares, and not a function of Python: a receipt has a dozen of these.
Quantity = Annotated[int, Field(ge=0), BeforeValidator(_parse_quantity)]
Hex = Annotated[str, StringConstraints(pattern=r"^0[xX][0-9a-fA-F]*$", to_lower=True)]


class ChainModel(BaseModel):
    """What a node says, as far as we need it."""

    model_config = ConfigDict(frozen=True)


class Block(ChainModel):
    """A block. `timestamp` is in Unix seconds, the base fee in wei for each unit of gas."""

    number: Quantity
    hash: Hex
    timestamp: Quantity
    baseFeePerGas: Quantity | None = None  # noqa: N815 - the name in JSON


class Log(ChainModel):
    """An event of a contract. `logIndex` counts in its block."""

    address: Hex
    topics: tuple[Hex, ...]
    data: Hex
    logIndex: Quantity  # noqa: N815 - the name in JSON
    blockNumber: Quantity  # noqa: N815
    blockHash: Hex  # noqa: N815
    transactionHash: Hex  # noqa: N815


class Receipt(ChainModel):
    """The result of a transaction in a block. `status` is 1 if it did not revert."""

    transactionHash: Hex  # noqa: N815
    blockHash: Hex  # noqa: N815
    blockNumber: Quantity  # noqa: N815
    status: Quantity
    logs: tuple[Log, ...]


class ChainTransaction(ChainModel):
    """A transaction: what it called, and with which data. `to` is None where it made a contract."""

    hash: Hex
    to: Hex | None
    input: Hex


class FullBlock(ChainModel):
    """A block with its transactions."""

    number: Quantity
    hash: Hex
    transactions: tuple[ChainTransaction, ...]


class Effect(Enum):
    """What a transaction, or a block, did with an authorization."""

    NOTHING = auto()
    PAID = auto()
    USED_OTHERWISE = auto()
    """Used, but not for this payment: its payer signed the same nonce twice."""
    CANCELED = auto()
    ENDED_OTHERWISE = auto()
    """Used for something else or cancelled: Permit2 does not log which."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of an authorization in a block. `amount` is what moved, if it was a part."""

    effect: Effect
    block: int
    block_hash: str
    transaction_hash: str
    amount: int | None = None


def read_effect(receipt: Receipt, token: Token, payment: SignedPayment) -> Effect:
    """Read what the transaction did with the authorization of this payment."""
    if receipt.status != 1:
        return Effect.NOTHING
    logs = {log.logIndex: log for log in receipt.logs}
    for log in receipt.logs:
        if _is_event(log, token, CANCELED, payment):
            return Effect.CANCELED
        if _is_event(log, token, USED, payment):
            # Both logs must be the token's own: an account with code can log anything.
            following = logs.get(log.logIndex + 1)
            if following is None or not _is_transfer_of_payer(following, token, payment):
                return Effect.NOTHING  # logs are missing
            is_paid = _is_transfer(following, payment, payment.value)
            return Effect.PAID if is_paid else Effect.USED_OTHERWISE
    return Effect.NOTHING


def has_received(receipt: Receipt, token: Token, payment: SignedPayment, amount: int) -> bool:
    """Return whether the token logged that the payer sent this amount to the recipient."""
    return any(
        _is_transfer_of_payer(log, token, payment) and _is_transfer(log, payment, amount)
        for log in receipt.logs
    )


def select_logs(end: Log, logs: Iterable[Log]) -> Receipt:
    """Select the logs of the transaction of `end`, as the part of its receipt that they are."""
    return Receipt.model_construct(
        transactionHash=end.transactionHash,
        blockHash=end.blockHash,
        blockNumber=end.blockNumber,
        status=1,  # what reverts logs nothing
        logs=tuple(
            log
            for log in logs
            if (log.blockHash, log.transactionHash) == (end.blockHash, end.transactionHash)
        ),
    )


def build_end_filter(token: Token, payment: SignedPayment, first: int, last: int) -> dict[str, Any]:
    """Build the `eth_getLogs` filter for the end of an authorization in these blocks."""
    return {
        "address": token.address,
        "fromBlock": hex(first),
        "toBlock": hex(last),
        "topics": [[USED, CANCELED], encode_topic(payment.payer), encode_topic(payment.nonce)],
    }


def build_block_filter(token: Token, payment: SignedPayment, block: int) -> dict[str, Any]:
    """Build the `eth_getLogs` filter for what the payer's authorizations and transfers logged in a block."""
    return {
        "address": token.address,
        "fromBlock": hex(block),
        "toBlock": hex(block),
        "topics": [[USED, CANCELED, TRANSFER], encode_topic(payment.payer)],
    }


def build_received_filter(token: Token, payment: SignedPayment, places: dict[str, str]) -> dict[str, Any]:
    """Build the `eth_getLogs` filter for what the payer sent to the recipient, in these places."""
    topics = [TRANSFER, encode_topic(payment.payer), encode_topic(payment.to)]
    return {"address": token.address, **places, "topics": topics}


def _is_event(log: Log, token: Token, event: str, payment: SignedPayment) -> bool:
    topics = (event, encode_topic(payment.payer), encode_topic(payment.nonce))
    return log.address == token.address.lower() and log.topics == topics


def _is_transfer_of_payer(log: Log, token: Token, payment: SignedPayment) -> bool:
    return log.address == token.address.lower() and log.topics[:2] == (TRANSFER, encode_topic(payment.payer))


def _is_transfer(log: Log, payment: SignedPayment, amount: int) -> bool:
    data = "0x" + encode_word(amount).hex()
    return log.topics[2:] == (encode_topic(payment.to),) and log.data == data
