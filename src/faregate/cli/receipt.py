"""`receipt`: show the receipt of one transaction."""

import json as jsonlib

from faregate.cli.terminal import clean, prints_json
from faregate.commands import Echo
from faregate.errors import CommandError, ConfigurationError
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import ReceiptDocument
from faregate.reports.export import format_moment
from faregate.x402.tokens import format_price


def run_receipt(client: MerchantClient, echo: Echo, *, id: str, json: bool, text: bool) -> int:
    """Print a receipt. Raises `CommandError` for another kind of id, `ConfigurationError` without one."""
    as_json = prints_json(json, text)
    if not id.startswith("txn_"):
        raise CommandError(
            f"{id!r} is not a transaction: give its txn_ id, which `faregate transactions` lists."
        )
    detail = client.get_transaction(id)
    if detail.receipt is None:
        raise ConfigurationError(f"{id} is {detail.status or 'of unknown status'}: {_explain(detail.status)}")
    echo(jsonlib.dumps(_to_json(detail.receipt), indent=2) if as_json else _format_page(detail.receipt))
    return 0


def _explain(status: str | None) -> str:
    if status == "failed":
        return "nothing was charged, and there is no receipt."
    return "it has no receipt before its payment has succeeded."


def _to_json(receipt: ReceiptDocument) -> dict[str, object]:
    """The service's document, with amounts as whole numbers."""
    document = receipt.model_dump(mode="json")
    for name in ("authorized_atomic", "settled_atomic"):
        document["payment"][name] = int(document["payment"][name])
    return document


def _format_page(receipt: ReceiptDocument) -> str:
    payment = receipt.payment
    lines = {
        "receipt": receipt.id,
        "transaction": receipt.transaction_id,
        "issued": format_moment(receipt.issued_at),
        "environment": receipt.environment,
        "settled": format_price(payment.settled_atomic, payment.asset),
        "authorized": format_price(payment.authorized_atomic, payment.asset),
        "price": f"{receipt.price.label} ({receipt.price.calculation_mode})",
        "resource": f"{receipt.resource.name} ({receipt.resource.id})",
        "url": receipt.resource.url,
        "seller": f"{receipt.seller.name} ({receipt.seller.id})",
        "payer": payment.payer,
        "recipient": payment.recipient,
        "network": payment.network,
        "asset": f"{payment.asset} ({payment.asset_id})",
        "hash": payment.transaction_hash,
    }
    return "\n".join(f"{name:<12} {clean(value)}" for name, value in lines.items())
