"""`faregate service refund record | list | remove`: refunds as records. None of them moves money."""

import json
from argparse import Namespace
from typing import Final

from pydantic import TypeAdapter, ValidationError

from faregate.errors import ConfigurationError
from faregate.rules.account import Address
from faregate.rules.payments import PaymentsUnavailable
from faregate.service.commands.payment import find_stored_payment
from faregate.service.database.payment_rows import PaymentRow, find_payment_by_id
from faregate.service.database.refunds import Refund, list_refunds, remove_refund
from faregate.service.database.types import to_datetime
from faregate.service.payment_chain import PaymentChain
from faregate.service.refunds import RefundRecorder, RefundRequest
from faregate.service.runtime import open_runtime
from faregate.service.settings import find_environment, read_settings
from faregate.service.storage import Storage, open_storage
from faregate.x402.tokens import format_price

_ADDRESS: Final = TypeAdapter[str](Address)
_HASH_DIGITS: Final = 64


def run_record(arguments: Namespace) -> int:
    """Record a transfer as the refund of a payment, if the chain proves it."""
    transaction_hash, sender = _parse_hash(arguments.hash), _parse_sender(vars(arguments)["from"])
    with open_runtime(read_settings(arguments)) as runtime:
        storage = runtime.storage
        payment = _find(storage, arguments.id)
        account = next(candidate for candidate in storage.list_accounts() if candidate.id == payment.account)
        payments = runtime.payments.get(account.environment)
        if payments is None:
            raise ConfigurationError(
                f"{payment.id} is a {account.environment} payment: set payments and "
                f"rpc_{account.environment} as `faregate service serve` has them."
            )
        chain = PaymentChain(payments, runtime.accounts.open_stores())
        recorder = RefundRecorder(storage.database, chain, storage.list_accounts())
        request = RefundRequest(payment, transaction_hash, sender, arguments.transfer)
        try:
            refund = recorder.record(request, storage.stamps.read_clock())
        except PaymentsUnavailable as error:
            raise ConfigurationError(
                f"The chain does not prove the refund, and nothing was recorded: {error}"
            ) from None
    print(json.dumps(refund.describe()) if arguments.json else _write(refund))
    return 0


def run_list(arguments: Namespace) -> int:
    """Print the refunds of a seller, oldest first."""
    with open_storage(read_settings(arguments)) as storage:
        account = storage.find_account(arguments.environment or find_environment(), arguments.seller)
        refunds = list_refunds(storage.database, [account.id])
    if arguments.json:
        print(json.dumps({"refunds": [refund.describe() for refund in refunds]}))
    else:
        print("\n".join(map(_write, refunds)) or "there are no refunds")
    return 0


def run_remove(arguments: Namespace) -> int:
    """Mark a recorded refund as removed: it was of another payment, or its chain has lost it."""
    transaction_hash = _parse_hash(arguments.hash)
    with open_storage(read_settings(arguments)) as storage:
        payment = _find(storage, arguments.id)
        now = storage.stamps.read_clock()
        if not remove_refund(storage.database, payment.account, payment.id, transaction_hash, now):
            raise ConfigurationError(f"{payment.id} has no refund by {transaction_hash}: see `refund list`.")
    print(f"removed: {transaction_hash} counts as a refund of {payment.id} no more")
    return 0


def _write(refund: Refund) -> str:
    removed = "" if refund.is_kept else f", removed {to_datetime(refund.removed_at or 0):%Y-%m-%d %H:%M}"
    price = format_price(refund.amount, refund.symbol)
    return (
        f"{refund.transaction}: {price} to {refund.payer} by {refund.transaction_hash}, recorded "
        f"{to_datetime(refund.recorded_at):%Y-%m-%d %H:%M}{removed}"
    )


def _find(storage: Storage, transaction_id: str) -> PaymentRow:
    store, stored = find_stored_payment(storage, transaction_id)
    payment = find_payment_by_id(storage.database, store.account.id, stored.id)
    assert payment is not None  # noqa: S101 - payments are never deleted
    return payment


def _parse_hash(text: str) -> str:
    lower = text.lower()
    digits = lower.removeprefix("0x")
    if lower == digits or len(digits) != _HASH_DIGITS or set(digits) - set("0123456789abcdef"):
        raise ConfigurationError("--hash must be a transaction hash: 0x and 64 hex digits.")
    return lower


def _parse_sender(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _ADDRESS.validate_python(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ConfigurationError(f"--from {text}: {fault['msg'].removeprefix('Value error, ')}") from None
