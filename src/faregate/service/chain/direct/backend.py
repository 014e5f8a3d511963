"""Direct settlement: transfers are signed by the service's own gas account, written down, and sent.

What may happen to a transfer after it was signed and written into the books:

- Its worker dies before sending, or the chain's nodes forget it: the next attempt sends it again.
- It waits for long: it is replaced by one with the same gas nonce and higher fees.
- A stranger settles the payment first, or the payer's money is gone: it is sent all the same. It reverts and
  costs a little gas; a gas nonce that is never used would stop every later transfer. A transfer of nothing to
  oneself would cost less, but then two transactions in the books would compete for one gas nonce.
- Another transaction took its gas nonce: it can never be mined. If the chain would still accept the payment,
  the next attempt signs it with a new gas nonce. The token takes an authorization once, from any sender.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from faregate.rules.payments import (
    UNKNOWN_AMOUNT,
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentsUnavailable,
    PaymentVerified,
    Reservation,
    SettlementResult,
    SignedTransfer,
    get_amount,
)
from faregate.rules.verification import USED, check_payment, refuse_short_balance
from faregate.service.chain.abi import encode_call
from faregate.service.chain.chain_reader import VERIFY_SECONDS, ChainReader
from faregate.service.chain.deadline import limit_time
from faregate.service.chain.direct.gas_account import GasAccount
from faregate.service.chain.direct.signers import SigningFailed
from faregate.service.chain.permit_calls import encode_settlement
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.permit2 import UPTO_PROXY
from faregate.x402.tokens import Token

_TRANSFER: Final = (
    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
)
_CHECKED_FOR: Final = timedelta(seconds=10)
"""How long the gas account counts as able to pay: asking costs each verification two calls more."""


class DirectPayments:
    """Verifies with `chain`, settles with `account`, and believes `chain` only. A `Payments` of one chain."""

    def __init__(self, account: GasAccount, chain: ChainReader) -> None:
        self.account: Final = account
        self._chain = chain
        self._able_until: datetime | None = None

    @limit_time(VERIFY_SECONDS)
    def verify(
        self,
        payment: SignedPayment,
        terms: Terms,
        *,
        now: datetime,
        committed: int,
        reservations: Sequence[Reservation] = (),
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment: by itself, against the payer's balance, and by simulating the transfer."""
        checked = check_payment(payment, terms, now)
        if isinstance(checked, PaymentRefused):
            return checked
        # Nothing of this payment is in an earlier block: the simulation would find its authorization used.
        from_block = self._chain.find_first_block()
        funds = self._chain.read_funds(payment, terms, committed, reservations)
        if funds - committed < payment.value:
            return refuse_short_balance(terms)
        # The token names a used authorization in words, Permit2 by a number.
        if payment.facilitator is not None and self._chain.is_authorization_used(
            terms.token, payment.payer, payment.nonce
        ):
            return USED
        missing = self._chain.find_missing_approval(payment, terms, reservations, from_block)
        if missing is not None:
            return missing
        reverts = self.account.simulate(*_build_call(payment, terms, payment.value))
        if reverts is not None:
            return PaymentRefused(reverts.describe())
        self._require_gas(now)
        return PaymentVerified(checked.payer, from_block, funds)

    def list_facilitators(self, token: Token, now: datetime) -> tuple[str, ...]:
        """List the gas account: it settles parts of authorizations, too."""
        return (self.account.address,)

    @limit_time(VERIFY_SECONDS)
    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        """Return whether the authorization was used or cancelled. Raises `PaymentsUnavailable`."""
        return self._chain.is_authorization_used(terms.token, payment.payer, payment.nonce)

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Return what the chain proves."""
        return self._chain.look(payment, terms, attempt)

    def get_gas_account(self, terms: Terms) -> str:
        """Return the address whose gas nonces the books give out."""
        return self.account.address

    def sign(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None
    ) -> SignedTransfer | PaymentPostponed:
        """Sign the transfer, or find that the signed one is to be sent once more, or replaced."""
        if payment.facilitator not in (None, self.account.address.lower()):
            return PaymentPostponed(
                f"the payer lets {payment.facilitator} settle, which is not the gas account"
            )
        amount = get_amount(payment, attempt)
        if amount is None:
            return PaymentPostponed(UNKNOWN_AMOUNT)
        try:
            return self._find_waiting(terms, attempt) or self.account.sign_call(
                *_build_call(payment, terms, amount), gas_nonce
            )
        except SigningFailed as error:
            raise PaymentsUnavailable(str(error)) from error

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        """Send what was signed. The answers of nodes to it prove nothing."""
        signed = attempt.signed
        if signed is None:
            return PaymentSent(None, "nothing was signed")
        return PaymentSent(signed.transaction_hash, self.account.send(signed.raw))

    def _find_waiting(self, terms: Terms, attempt: Attempt) -> SignedTransfer | PaymentPostponed | None:
        """Return what to do about the transfer that was signed before; None if a new one is needed."""
        signed = attempt.signed
        if signed is None or not self.account.is_sender_of(signed):
            return None
        mined = self.account.count_mined()
        if signed.gas_nonce >= mined:
            return self.account.renew(signed, mined)
        if self.account.is_any_successful({*attempt.hashes, signed.transaction_hash}):
            return PaymentPostponed("the transfer is in a block that is not deep enough yet")
        return None

    def _require_gas(self, now: datetime) -> None:
        """Raise `PaymentsUnavailable` if no transfer could be paid for: work would be done for nothing."""
        if self._able_until is not None and now < self._able_until:
            return
        obstacle = self.account.find_obstacle()
        if obstacle is not None:
            raise PaymentsUnavailable(obstacle)
        self._able_until = now + _CHECKED_FOR


def _build_call(payment: SignedPayment, terms: Terms, amount: int) -> tuple[str, bytes]:
    """Build the call that moves this amount: the contract, and the data."""
    if payment.facilitator is None:
        return terms.token.address, _encode_transfer(payment)
    return UPTO_PROXY, encode_settlement(payment, terms.token, amount)


def _encode_transfer(payment: SignedPayment) -> bytes:
    """Encode the call of the token that moves the money (EIP-3009).

    The form with v, r and s, which every version of the token has.
    """
    signature = bytes.fromhex(payment.signature[2:])
    call = encode_call(
        _TRANSFER,
        *(payment.payer, payment.to, payment.value, payment.valid_after, payment.valid_before),
        *(payment.nonce, signature[64], signature[:32], signature[32:64]),
    )
    return bytes.fromhex(call[2:])
