"""The gas account: signs transfers, replaces those that wait for long, and sends what was signed.

Workers may share one account. They share its gas nonces through the database only: nothing is kept here.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar

from faregate.logs import log
from faregate.rules.clock import Clock
from faregate.rules.payments import PaymentPostponed, SignedTransfer
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.deadline import limit_time
from faregate.service.chain.direct.eip1559 import (
    Fees,
    GasTransaction,
    hash_transaction,
    read_transaction,
    recover_sender,
)
from faregate.service.chain.direct.fees import (
    FeeMarket,
    GasPolicy,
    choose_fees,
    format_ether,
    limit_gas,
    raise_fees,
)
from faregate.service.chain.direct.l1_fee import ask_l1_fee
from faregate.service.chain.direct.signers import Signer, SigningFailed
from faregate.service.chain.node import ChainNode
from faregate.service.chain.node_order import take_turns
from faregate.service.chain.rpc import RpcError, RpcNode
from faregate.service.chain.safe_text import clean_text

DEFAULT_POLICY: Final = GasPolicy()
_SEND_SECONDS: Final = 10.0
"""How long all nodes together have to take a transaction."""
_EMPTY_GAS: Final = 21_000
"""The units of gas of a transaction without data."""
_TRANSFER_BYTES: Final = 450
"""A transfer has about 400 bytes. The layer below (L1) is paid by the byte."""
_ENVELOPE_BYTES: Final = 130
"""The bytes of a transaction beside its data."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GasBalance:
    """The ether of the gas account, in wei. If it is low, an operator must send it some.

    `transfer_cost` is what a transfer may take now, `l1_fee` of it for its data on the layer below.
    """

    address: str
    wei: int
    is_low: bool
    transfer_cost: int = 0
    l1_fee: int = 0


@dataclass(frozen=True, slots=True)
class TransferReverts:
    """The token, or Permit2, would refuse the transfer now; `reason` is its own, if it gave one."""

    reason: str

    def describe(self) -> str:
        """Describe it to the payer or the operator."""
        return f"the token would refuse the transfer: {self.reason}"


@dataclass(frozen=True, slots=True)
class TransferConditions:
    """What the chain asks for a transfer: units of gas and fees; `balance` (wei) is what the account has.

    `l1_fee` (wei) is taken beside the gas.

    `next_nonce` counts the account's transactions, those that wait for a block included.
    """

    gas: int
    market: FeeMarket
    l1_fee: int
    balance: int
    next_nonce: int


class GasAccount:
    """The account of `signer` on `chain`. Methods that ask the chain raise `PaymentsUnavailable`."""

    def __init__(
        self, chain: ChainReader, signer: Signer, clock: Clock, policy: GasPolicy = DEFAULT_POLICY
    ) -> None:
        self._chain = chain
        self._signer = signer
        self._clock = clock
        self._policy = policy

    @property
    def address(self) -> str:
        """Its checksum address."""
        return self._signer.address

    def is_sender_of(self, transfer: SignedTransfer) -> bool:
        """Return whether this account, on this chain, signed the transfer."""
        return transfer.sender.lower() == self.address.lower() and transfer.chain == self.chain

    @property
    def chain(self) -> int:
        return self._chain.chain

    def count_mined(self) -> int:
        """Return how many of its transactions are in blocks: the first gas nonce that is not."""
        return self._chain.ask(lambda node: node.get_nonce(self.address))

    def count_sent(self) -> int:
        """Return how many of its transactions are in blocks, or wait for one with no gap before them."""
        return self._chain.ask(lambda node: node.get_nonce(self.address, "pending"))

    def is_any_successful(self, hashes: Iterable[str]) -> bool:
        """Return whether one of these transactions is in a block and did not revert."""
        sent = tuple(hashes)
        return self._chain.ask(lambda node: any(_has_succeeded(node, each) for each in sent))

    def read_balance(self) -> GasBalance:
        """Return its ether, and whether that is below `alarm_balance`, or less than a transfer may take."""
        wei = self._chain.get_ether(self.address)
        market, l1_fee = self._chain.ask(_ask_prices)
        fees = choose_fees(market, self._policy)
        maximum = self._policy.max_fee if fees is None else fees.maximum
        cost = self._policy.max_gas * maximum + l1_fee
        return GasBalance(self.address, wei, wei < max(self._policy.alarm_balance, cost), cost, l1_fee)

    def find_obstacle(self) -> str | None:
        """Return why no transfer could be paid for now, in words for the operator; None if one could."""
        market, l1_fee = self._chain.ask(_ask_prices)
        fees = choose_fees(market, self._policy)
        if fees is None:
            return self._describe_fee(market.base_fee)
        cost = self._policy.max_gas * fees.maximum + l1_fee
        return self._describe_lack(self._chain.get_ether(self.address), cost)

    def simulate(self, to: str, data: bytes) -> TransferReverts | None:
        """Return why the contract `to` would refuse this call now; None if it would not."""
        call = self._describe_call(to, data)
        result = self._chain.ask(lambda node: _catch_revert(lambda: node.call("eth_call", call, "latest")))
        return result if isinstance(result, TransferReverts) else None

    def sign_call(self, to: str, data: bytes, gas_nonce: int | None) -> SignedTransfer | PaymentPostponed:
        """Sign this call of the contract `to` with a gas nonce from `gas_nonce`. Raises `SigningFailed`.

        A call that the contract would refuse now, or that the account cannot pay for, is not signed.
        """
        conditions = self._chain.ask(lambda node: self._ask_conditions(node, to, data))
        if isinstance(conditions, TransferReverts):
            return PaymentPostponed(conditions.describe())
        gas, fees = limit_gas(conditions.gas, self._policy), choose_fees(conditions.market, self._policy)
        if gas is None:
            return PaymentPostponed(f"the transfer takes {conditions.gas} units of gas, more than max_gas")
        if fees is None:
            return PaymentPostponed(self._describe_fee(conditions.market.base_fee))
        lack = self._describe_lack(conditions.balance, gas * fees.maximum + conditions.l1_fee)
        if lack is not None:
            return PaymentPostponed(lack)
        # The books may be older than the chain: restored from a copy, or the account was used elsewhere.
        nonce = max(gas_nonce or 0, conditions.next_nonce)
        call = GasTransaction(self.chain, nonce, fees, gas, to.lower(), data)
        return sign_transaction(call, self._signer, at=self._now())

    def renew(self, transfer: SignedTransfer, mined: int) -> SignedTransfer:
        """Return what to send for a transfer that is in no block: itself, or its replacement.

        Only the first in line is replaced, whose gas nonce is `mined`: the others wait for that one.
        """
        is_due = self._now() - transfer.signed_at >= self._policy.replace_after_seconds
        if transfer.gas_nonce != mined or not self.is_sender_of(transfer) or not is_due:
            return transfer
        fees = raise_fees(read_transfer(transfer).fees, self._chain.ask(_ask_fee_market), self._policy)
        if fees is None:
            log(
                "service",
                logging.WARNING,
                "%s waits at the highest fee; raise max_fee_gwei",
                transfer.transaction_hash,
            )
            return transfer
        return self._replace(transfer, fees)

    def send(self, raw: str) -> str:
        """Send a raw transaction to every node; return their answers. Never raises, may be repeated.

        Most of what nodes refuse is fine: they know it already, or it is in a block.
        """
        answers: list[str] = []
        is_reached = False
        with limit_time(_SEND_SECONDS):
            for node, rests in take_turns(self._chain.client.nodes, monotonic()):
                # A node that is not asked now, after errors, is waited for only if no other node was reached.
                if not (rests and is_reached):
                    answers.append(_send_to(node, raw))
                    is_reached = is_reached or not node.is_resting()
        return "; ".join(answers)

    def fill_nonce(self, gas_nonce: int) -> str:
        """Use up a gas nonce with a transaction that does nothing; return the nodes' answers."""
        fees = choose_fees(self._chain.ask(_ask_fee_market), self._policy)
        if fees is None:
            return "not sent: the base fee is above max_fee_gwei"
        nothing = GasTransaction(self.chain, gas_nonce, fees, _EMPTY_GAS, self.address.lower(), b"")
        # Not in the books: whatever takes this gas nonce will do, and another one may have by now.
        try:
            return self.send(sign_transaction(nothing, self._signer, at=self._now()).raw)
        except SigningFailed as error:
            return f"not sent: {error}"

    def _ask_conditions(self, node: ChainNode, to: str, data: bytes) -> TransferConditions | TransferReverts:
        """Ask one node for everything that a new transfer needs; the transfer is simulated."""
        call = self._describe_call(to, data)
        gas = _catch_revert(lambda: node.get_quantity("eth_estimateGas", call, "latest"))
        if isinstance(gas, TransferReverts):
            return gas
        market, l1_fee = _ask_prices(node, len(data) + _ENVELOPE_BYTES)
        return TransferConditions(
            gas=gas,
            market=market,
            l1_fee=l1_fee,
            balance=node.get_ether(self.address),
            next_nonce=node.get_nonce(self.address, "pending"),
        )

    def _describe_call(self, to: str, data: bytes) -> dict[str, str]:
        return {"from": self.address, "to": to, "data": "0x" + data.hex()}

    def _replace(self, transfer: SignedTransfer, fees: Fees) -> SignedTransfer:
        try:
            return sign_transaction(
                build_replacement(transfer, fees),
                self._signer,
                at=self._now(),
                replaces=transfer.transaction_hash,
            )
        except SigningFailed as error:
            log("service", logging.WARNING, "%s is not replaced: %s", transfer.transaction_hash, error)
            return transfer

    def _describe_lack(self, balance: int, cost: int) -> str | None:
        if balance >= cost:
            return None
        has, takes = format_ether(balance), format_ether(cost)
        return f"the gas account {self.address} has {has} ether, a transfer may take {takes}: send it some"

    def _describe_fee(self, base_fee: int) -> str:
        return f"the base fee is {base_fee} wei, above max_fee_gwei: wait, or raise it"

    def _now(self) -> int:
        return int(self._clock().timestamp())


def sign_transaction(
    transaction: GasTransaction, signer: Signer, *, at: int, replaces: str | None = None
) -> SignedTransfer:
    """Sign the transaction at `at` (Unix seconds). Raises `SigningFailed`."""
    signature = signer.sign(transaction.digest)
    # What is in the books is sent, however often: a signature of another process would block its nonce.
    if recover_sender(transaction.digest, signature) != signer.address:
        raise SigningFailed(f"the signature is not of {signer.address}")
    raw = transaction.encode(signature)
    return SignedTransfer(
        sender=signer.address.lower(),
        chain=transaction.chain,
        gas_nonce=transaction.gas_nonce,
        raw="0x" + raw.hex(),
        transaction_hash=hash_transaction(raw),
        replaces=replaces,
        signed_at=at,
    )


def build_replacement(transfer: SignedTransfer, fees: Fees) -> GasTransaction:
    """Build the same call with the same gas nonce and other fees."""
    old = read_transfer(transfer)
    return GasTransaction(old.chain, old.gas_nonce, fees, old.gas_limit, old.to, old.data)


def read_transfer(transfer: SignedTransfer) -> GasTransaction:
    """Read the transaction of a signed transfer."""
    return read_transaction(bytes.fromhex(transfer.raw[2:]))


def _send_to(node: RpcNode, raw: str) -> str:
    try:
        node.call("eth_sendRawTransaction", raw)
    except RpcError as error:
        # A node may repeat what it was sent: the payer's signature is in it.
        return clean_text(str(error))
    return f"{node.host} took it"


def _ask_fee_market(node: ChainNode) -> FeeMarket:
    """Return the base fee of the latest block, and the tip that the node suggests."""
    base_fee = node.get_head().baseFeePerGas
    if base_fee is None:
        raise RpcError(f"RPC node {node.host} gave no base fee")
    return FeeMarket(base_fee, node.get_quantity("eth_maxPriorityFeePerGas"))


def _ask_prices(node: ChainNode, size: int = 0) -> tuple[FeeMarket, int]:
    """Return the prices of gas, and what the data of a transfer may cost: twice what it costs now."""
    return _ask_fee_market(node), 2 * ask_l1_fee(node, max(size, _TRANSFER_BYTES))


def _has_succeeded(node: ChainNode, transaction_hash: str) -> bool:
    """Return whether the transaction is in a block and did not revert."""
    receipt = node.get_receipt(transaction_hash)
    return receipt is not None and receipt.status == 1


def _catch_revert(simulate: Callable[[], T]) -> T | TransferReverts:
    try:
        return simulate()
    except RpcError as error:
        if not error.is_revert:
            raise
        return TransferReverts(_find_reason(error))


def _find_reason(error: RpcError) -> str:
    """Return the token's own words from `execution reverted: WORDS`."""
    return clean_text(str(error).partition("reverted")[2].strip(" :")) or "it gives no reason"
