"""The records of the service as flat rows, and the columns they have. Pure.

Amounts are `int` in atomic units, times are `datetime` with a zone; what the service left out is None.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from faregate.merchant.models import ContractRevision, Payer, Resource, Transaction, TransactionDetail

Value = str | int | datetime | tuple[str, ...] | None
TableRow = dict[str, Value]
Kind = Literal["text", "amount", "whole", "moment", "names"]


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column of a row. `names` is a tuple of names."""

    name: str
    kind: Kind = "text"


def _columns(*names: str) -> tuple[ReportColumn, ...]:
    return tuple(ReportColumn(name, _find_kind(name)) for name in names)


def _find_kind(name: str) -> Kind:
    if name.endswith("_atomic"):
        return "amount"
    if name.endswith("_at"):
        return "moment"
    if name == "revision_number":
        return "whole"
    return "names" if name in ("values", "required") else "text"


TRANSACTION: Final = _columns(
    *("id", "status", "payer", "authorized_atomic", "settled_atomic", "created_at", "authorized_at"),
    *("settled_at", "transaction_hash", "payment_request_id"),
)
RECEIPT: Final = _columns(
    "asset", "network", "resource_id", "resource_name", "price_label", "receipt_id", "issued_at"
)
"""What a transaction's receipt adds to its row."""
PAYER: Final = _columns("id", "identifier", "created_at", "last_transaction_at")
RESOURCE: Final = _columns("id", "name", "price", "description", "image_url", "created_at", "updated_at")
"""The price is that of the active revisions, which one call each asks for; see `reader.read_prices`."""
CONTRACT: Final = _columns(
    *("integration_key", "resource_id", "resource_name", "revision_id", "revision_number"),
    *("revision_name", "settlement_asset", "price", "values", "required"),
)


def build_row(record: Transaction | Payer | Resource, columns: Sequence[ReportColumn]) -> TableRow:
    """The fields of a listed record."""
    return {column.name: getattr(record, column.name, None) for column in columns}


def build_receipt_row(detail: TransactionDetail | None) -> TableRow:
    """The columns of `RECEIPT`; all None without a receipt."""
    receipt = None if detail is None else detail.receipt
    if receipt is None:
        return {column.name: None for column in RECEIPT}
    return {
        "asset": receipt.payment.asset,
        "network": receipt.payment.network,
        "resource_id": receipt.resource.id,
        "resource_name": receipt.resource.name,
        "price_label": receipt.price.label,
        "receipt_id": receipt.id,
        "issued_at": receipt.issued_at,
    }


def build_contract_row(revision: ContractRevision, price: str | None) -> TableRow:
    """An active revision; `values` are the names in the seller's order."""
    values = sorted(revision.properties, key=lambda name: (revision.properties[name].position, name))
    return {
        "integration_key": revision.integration_key,
        "resource_id": revision.resource_id,
        "resource_name": revision.resource_name,
        "revision_id": revision.revision_id,
        "revision_number": revision.revision_number,
        "revision_name": revision.revision_name,
        "settlement_asset": revision.settlement_asset,
        "price": price,
        "values": tuple(values),
        "required": tuple(name for name in values if name in revision.required),
    }
