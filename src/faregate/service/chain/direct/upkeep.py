"""Keep the gas account's nonces moving: what was signed gets into a block, also after its payment ended.

A payment that a stranger settled has no further attempt, but the transfer that was signed for it still holds
its gas nonce. Any worker may run this, at any time, beside any other.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from faregate.logs import log
from faregate.rules.payments import SignedTransfer
from faregate.service.chain.direct.gas_account import GasAccount

BATCH: Final = 20
"""Transfers that are looked at in one go, those next in line first."""


class TransferStore(Protocol):
    """The signed transfers that the store keeps, those of ended payments included."""

    def list_transfers(
        self, sender: str, chain: int, from_nonce: int, limit: int
    ) -> Sequence[SignedTransfer]:
        """List the latest transfer of each gas nonce from `from_nonce`, the lowest first."""
        ...

    def replace_transfer(self, transfer: SignedTransfer) -> bool:
        """Write a transfer if the books still hold what it `replaces`; return whether they did."""
        ...


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done: the hashes sent, the one that was replaced by the first of them, and a nonce used up."""

    sent: tuple[str, ...] = ()
    replaced: str | None = None
    filled: int | None = None


def keep_nonces_moving(account: GasAccount, transfers: TransferStore) -> Upkeep:
    """Send what waits for a block once more, and raise the fee of the first. Raises `PaymentsUnavailable`.

    Call it every few seconds while something waits.
    """
    mined = account.count_mined()
    waiting = transfers.list_transfers(account.address.lower(), account.chain, mined, BATCH)
    if not waiting:
        return Upkeep()
    first, *others = waiting
    filled = _fill_gap(account, mined, first)
    replacement = _replace(account, transfers, first, mined)
    for transfer in (replacement or first, *others):
        account.send(transfer.raw)
    return Upkeep(
        sent=tuple(transfer.transaction_hash for transfer in (replacement or first, *others)),
        replaced=None if replacement is None else first.transaction_hash,
        filled=filled,
    )


def _replace(
    account: GasAccount, transfers: TransferStore, first: SignedTransfer, mined: int
) -> SignedTransfer | None:
    """Replace the first in line if it waited for long; None if not, or if another worker did."""
    renewed = account.renew(first, mined)
    # A replacement that is not in the books is never sent: its hash would be lost.
    return renewed if renewed != first and transfers.replace_transfer(renewed) else None


def _fill_gap(account: GasAccount, mined: int, first: SignedTransfer) -> int | None:
    """Use up the next gas nonce if no transfer in the books has it, and none ever will.

    A transaction from outside the service had it when the books gave out a higher one, and was dropped. While
    a node knows that one, it may still get into a block.
    """
    if first.gas_nonce <= mined or account.count_sent() > mined:
        return None
    answers = account.fill_nonce(mined)
    log(
        "service",
        logging.WARNING,
        "gas nonce %s of %s is not in the books and was used up: %s",
        mined,
        account.address,
        answers,
    )
    return mined
