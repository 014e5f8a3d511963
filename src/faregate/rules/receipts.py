"""How a transaction is shown to the seller: results, list items, receipts (spec: Receipt)."""

from datetime import datetime
from typing import Protocol

from faregate.merchant.models import (
    CompletionResult,
    ReceiptDocument,
    ReceiptPayment,
    ReceiptPrice,
    ReceiptResource,
    ReceiptSeller,
    TransactionDetail,
)
from faregate.merchant.models import Transaction as ListedTransaction
from faregate.rules.ids import Ids
from faregate.rules.records import (
    COMPLETION_STATUSES,
    SettlementRecord,
    Transaction,
    get_settled_amount,
)
from faregate.x402.headers import build_payment_response
from faregate.x402.tokens import CURRENCIES, Environment


class Issuer(Protocol):
    """Who issues receipts: one environment of one seller's account."""

    @property
    def environment(self) -> Environment: ...
    @property
    def seller_id(self) -> str: ...
    @property
    def seller_name(self) -> str: ...
    @property
    def ids(self) -> Ids: ...


def build_settlement_record(
    issuer: Issuer, record: Transaction, transaction_hash: str, at: datetime
) -> SettlementRecord:
    """Build receipt and payment response of a settled payment."""
    response = build_payment_response(
        record.context.terms, record.payer.identifier, transaction_hash, get_settled_amount(record)
    )
    receipt = _build_receipt(issuer, record, transaction_hash, at)
    return SettlementRecord(at, transaction_hash, response, receipt.model_dump_json())


def build_completion(record: Transaction) -> CompletionResult:
    """Build the completion result; the last three fields are null until the payment succeeded.

    `ValueError` if the status is not one of a completion: the seller would not know what it means.
    """
    done = record.settled
    if record.status not in COMPLETION_STATUSES or (done is not None) != (record.status == "succeeded"):
        raise ValueError(f"{record.id} is {record.status}, which no completion may say")
    return CompletionResult(
        transaction_id=record.id,
        status=record.status,
        payment_response=done.payment_response if done else None,
        receipt=done.receipt if done else None,
        transaction_hash=done.transaction_hash if done else None,
    )


def build_transaction(record: Transaction, moment: datetime) -> ListedTransaction:
    """Build the list item as of this moment; what had not happened yet is absent."""
    status = record.status_at(moment)
    done = record.settled if status == "succeeded" else None
    return ListedTransaction(
        id=record.id,
        payer=record.payer.identifier,
        payment_request_id=record.payment_request_id,
        status=status,
        created_at=record.created_at,
        authorized_at=record.created_at,
        authorized_atomic=record.context.terms.amount,
        settled_at=done.at if done else None,
        settled_atomic=get_settled_amount(record) if done else None,
        transaction_hash=done.transaction_hash if done else None,
    )


def build_transaction_detail(record: Transaction) -> TransactionDetail:
    """Build the current transaction, with its receipt if it succeeded."""
    now = build_transaction(record, record.changed_at)
    receipt = record.settled.receipt if record.settled else None
    return TransactionDetail(**dict(now), receipt=receipt)


def _build_receipt(
    issuer: Issuer, record: Transaction, transaction_hash: str, at: datetime
) -> ReceiptDocument:
    revision, listing = record.context.revision, record.context.listing
    return ReceiptDocument(
        id=issuer.ids("rct", at),
        transaction_id=record.id,
        environment=issuer.environment,
        environment_key=issuer.environment,
        # A receipt tells the time in milliseconds.
        issued_at=at.replace(microsecond=at.microsecond // 1000 * 1000),
        schema_version=1,
        payment=_build_receipt_payment(record, transaction_hash),
        price=ReceiptPrice(
            id=revision.price_id,
            calculation_mode=revision.rules.calculation_mode,
            currency=CURRENCIES[revision.token.symbol],
            label=revision.price_label,
        ),
        resource=ReceiptResource(
            id=listing.id, name=listing.resource.name, url=record.context.request.resource.url
        ),
        seller=ReceiptSeller(id=issuer.seller_id, name=issuer.seller_name),
    )


def _build_receipt_payment(record: Transaction, transaction_hash: str) -> ReceiptPayment:
    terms = record.context.terms
    return ReceiptPayment(
        asset=terms.token.symbol,
        asset_id=terms.token.address,
        authorized_atomic=terms.amount,
        settled_atomic=get_settled_amount(record),
        network=terms.token.network,
        payer=record.payer.identifier,
        recipient=terms.pay_to,
        scheme=terms.scheme,
        transaction_hash=transaction_hash,
    )
