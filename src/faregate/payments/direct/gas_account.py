"""The gas account: signs transfers, replaces those that wait for long, and sends what was signed.

Workers may share one account. They share its gas nonces through the database only: nothing is kept here.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from faregate.logs import log
from faregate.payments.chain import ChainReader
from faregate.payments.direct.fees import GasPolicy, choose_fees, format_ether, limit_gas, raise_fees
from faregate.payments.direct.node_calls import (
    TransferReverts,
    ask_conditions,
    ask_fee_market,
    ask_nonce,
    is_any_successful,
    simulate,
)
from faregate.payments.direct.signers import Signer, SigningFailed
from faregate.payments.direct.transactions import (
    Fees,
    GasTransaction,
    hash_transaction,
    read_transaction,
    recover_sender,
)
from faregate.payments.rpc import RpcError, RpcNode
from faregate.payments.texts import clean_text
from faregate.service.clock import Clock
from faregate.service.payments import PaymentPostponed, SignedTransfer
from faregate.x402.tokens import Token

DEFAULT_POLICY: Final = GasPolicy()
_SEND_SECONDS: Final = 10.0
"""All nodes together have so long to take a transaction."""
_EMPTY_GAS: Final = 21_000
"""What a transaction without data takes."""


@dataclass(frozen=True, slots=True)
class GasBalance:
    """The ether of the gas account, in wei. If it is low, somebody must send it some."""

    address: str
    wei: int
    is_low: bool


class GasAccount:
    """The account of `signer` on `chain`. What asks it raises `PaymentsUnavailable`."""

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
        return self._chain.ask(lambda node: ask_nonce(node, self.address))

    def count_sent(self) -> int:
        """Return how many of its transactions are in blocks, or wait for one with no gap before them."""
        return self._chain.ask(lambda node: ask_nonce(node, self.address, "pending"))

    def is_any_successful(self, hashes: Iterable[str]) -> bool:
        """Return whether one of these transactions is in a block and did not revert."""
        known = tuple(hashes)
        return self._chain.ask(lambda node: is_any_successful(node, known))

    def read_balance(self) -> GasBalance:
        """Return its ether, and whether that is below `alarm_balance`."""
        wei = self._chain.get_ether(self.address)
        return GasBalance(self.address, wei, wei < self._policy.alarm_balance)

    def find_obstacle(self) -> str | None:
        """Return why no transfer could be paid for now, in words for the operator; None if one could."""
        market = self._chain.ask(ask_fee_market)
        fees = choose_fees(market, self._policy)
        if fees is None:
            return self._describe_fee(market.base_fee)
        return self._describe_lack(self._chain.get_ether(self.address), self._policy.max_gas * fees.maximum)

    def simulate(self, token: Token, data: bytes) -> TransferReverts | None:
        """Return why the token would refuse this call now; None if it would not."""
        result = self._chain.ask(lambda node: simulate(node, self.address, token.address, data))
        return result if isinstance(result, TransferReverts) else None

    def sign_call(
        self, token: Token, data: bytes, gas_nonce: int | None
    ) -> SignedTransfer | PaymentPostponed:
        """Sign this call of the token with a gas nonce from `gas_nonce`. Raises `SigningFailed`.

        A call that the token would refuse now, or that the account cannot pay for, is not signed.
        """
        found = self._chain.ask(lambda node: ask_conditions(node, self.address, token.address, data))
        if isinstance(found, TransferReverts):
            return PaymentPostponed(f"the token would refuse the transfer: {found.reason}")
        gas, fees = limit_gas(found.gas, self._policy), choose_fees(found.market, self._policy)
        if gas is None:
            return PaymentPostponed(f"the transfer takes {found.gas} units of gas, more than max_gas")
        if fees is None:
            return PaymentPostponed(self._describe_fee(found.market.base_fee))
        lack = self._describe_lack(found.balance, gas * fees.maximum)
        if lack is not None:
            return PaymentPostponed(lack)
        # The books may be older than the chain: restored from a copy, or the account was used elsewhere.
        nonce = max(gas_nonce or 0, found.next_nonce)
        call = GasTransaction(token.chain, nonce, fees, gas, token.address.lower(), data)
        return sign_transaction(call, self._signer, at=self._now())

    def renew(self, transfer: SignedTransfer, mined: int) -> SignedTransfer:
        """Return what to send for a transfer that is in no block: itself, or its replacement.

        Only the first in line is replaced, whose gas nonce is `mined`: the others wait for that one.
        """
        is_due = self._now() - transfer.signed_at >= self._policy.replace_after_seconds
        if transfer.gas_nonce != mined or not self.is_sender_of(transfer) or not is_due:
            return transfer
        fees = raise_fees(read_transfer(transfer).fees, self._chain.ask(ask_fee_market), self._policy)
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
        """Send a raw transaction to every node; return what they said. Never raises, may be repeated.

        Most of what nodes refuse is fine: they know it already, or it is in a block.
        """
        until = monotonic() + _SEND_SECONDS
        return "; ".join(_send_to(node, raw, until) for node in self._chain.client.nodes)

    def fill_nonce(self, gas_nonce: int) -> str:
        """Use up a gas nonce with a transaction that does nothing; return what the nodes said."""
        fees = choose_fees(self._chain.ask(ask_fee_market), self._policy)
        if fees is None:
            return "not sent: the base fee is above max_fee_gwei"
        nothing = GasTransaction(self.chain, gas_nonce, fees, _EMPTY_GAS, self.address.lower(), b"")
        # Not in the books: whatever takes this gas nonce will do, and another one may have by now.
        try:
            return self.send(sign_transaction(nothing, self._signer, at=self._now()).raw)
        except SigningFailed as error:
            return f"not sent: {error}"

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
    # What is in the books is sent, however often: a signature of somebody else's would block its nonce.
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


def _send_to(node: RpcNode, raw: str, until: float) -> str:
    try:
        node.call("eth_sendRawTransaction", raw, until=until)
    except RpcError as error:
        # A node may repeat what it was sent: the payer's signature is in it.
        return clean_text(str(error))
    return f"{node.host} took it"
