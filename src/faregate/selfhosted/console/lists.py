"""The lists: payments, payers, resources. Each shows one moment, which its links to other pages name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from faregate.merchant.formats import ID_TAIL
from faregate.selfhosted.console.layout import (
    ROOT,
    Column,
    Viewer,
    build_page,
    build_status,
    build_table,
    build_time,
)
from faregate.selfhosted.console.markup import Child, Markup, build
from faregate.selfhosted.database.store import SqlStore
from faregate.selfhosted.database.transactions import StoredTransaction
from faregate.service.http import ParsedListQuery
from faregate.service.records import STATUSES
from faregate.x402.tokens import format_price

PAGE_SIZE: Final = 25
_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]{40}", re.ASCII)
_PAYMENTS: Final = f"{ROOT}/payments"
_PAYMENT_COLUMNS: Final = (
    Column("Authorized (UTC)"),
    Column("Status"),
    Column("Amount", is_number=True),
    Column("Resource"),
    Column("Payer"),
)
_PAYER_COLUMNS: Final = (Column("Payer"), Column("First seen (UTC)"), Column("Last payment (UTC)"))
_RESOURCE_COLUMNS: Final = (
    Column("Name"),
    Column("Key"),
    Column("Price", is_number=True),
    Column("Revision", is_number=True),
    Column("Changed (UTC)"),
)


@dataclass(frozen=True, slots=True)
class View:
    """What of a list is asked for. `filters` are those that are set."""

    as_of: datetime
    page: int
    filters: Mapping[str, str]

    @property
    def query(self) -> ParsedListQuery:
        return ParsedListQuery(self.as_of, True, self.page, PAGE_SIZE, dict(self.filters))


def show_payments(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show a page of payments, newest first, of a status and a payer if they are given."""
    status, payer = view.filters.get("status"), view.filters.get("payer")
    if status not in STATUSES:
        status = None
    page = store.list_transactions(view.query, status, _find_payer_id(store, payer))
    return build_page(
        viewer,
        _PAYMENTS,
        "Payments",
        _build_filter(status, payer),
        build_table(
            "Payments",
            _PAYMENT_COLUMNS,
            [_build_payment(one, view.as_of) for one in page.records],
            "There are no such payments.",
        ),
        _build_pages(_PAYMENTS, view, page.count),
    )


def _find_payer_id(store: SqlStore, given: str | None) -> str | None:
    """Return the id of the payer that is given by id or address; one that nobody has, if there is none."""
    if given is None or _PAYER_ID.fullmatch(given):
        return given
    found = store.find_payer_id(given) if _ADDRESS.fullmatch(given) else None
    return found or "nobody"


def _build_filter(status: str | None, payer: str | None) -> Markup:
    choices = [
        build("option", one or "any", value=one, selected=one == (status or "")) for one in ("", *STATUSES)
    ]
    return build(
        "form",
        build("label", "Status ", build("select", *choices, name="status")),
        build("label", "Payer ", build("input", name="payer", value=payer or "", placeholder="0x… or pyr_…")),
        build("button", "Show"),
        method="get",
        action=_PAYMENTS,
        class_="filter",
    )


def _build_payment(payment: StoredTransaction, as_of: datetime) -> Sequence[Child]:
    context, payer = payment.context, payment.payer.identifier
    return (
        build("a", build_time(payment.created_at), href=f"{_PAYMENTS}/{payment.id}"),
        build_status(payment.status_at(as_of)),
        format_price(context.terms.amount, context.terms.token.symbol),
        context.listing.resource.name,
        link_to_payer(payer, f"{payer[:8]}…{payer[-6:]}"),
    )


def link_to_payer(address: str, shown: str | None = None) -> Markup:
    """Write an address, or what stands for it, as a link to its payments."""
    return build("a", build("code", shown or address), href=f"{_PAYMENTS}?{urlencode({'payer': address})}")


def show_payers(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show a page of payers, those who came last first."""
    page = store.list_payers(view.query)
    rows = [
        (
            link_to_payer(one.identifier),
            build_time(one.created_at),
            None if one.last_transaction_at is None else build_time(one.last_transaction_at),
        )
        for one in page.records
    ]
    path = f"{ROOT}/payers"
    return build_page(
        viewer,
        path,
        "Payers",
        build_table("Payers", _PAYER_COLUMNS, rows, "Nobody has paid yet."),
        _build_pages(path, view, page.count),
    )


def show_resources(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show all resources with their prices, archived ones last."""
    found = sorted(store.list_resources(view.as_of), key=lambda one: one.is_archived(view.as_of))
    rows: list[Sequence[Child]] = []
    for one in found:
        revision = one.active
        name = f"{one.resource.name} (archived)" if one.is_archived(view.as_of) else one.resource.name
        price = format_price(revision.rules.amount, revision.token.symbol) if one.require_payment else "free"
        rows.append((name, one.resource.key, price, revision.number, build_time(one.updated_at)))
    table = build_table("Resources", _RESOURCE_COLUMNS, rows, "Nothing is sold yet.")
    return build_page(viewer, f"{ROOT}/resources", "Resources", table)


def _build_pages(path: str, view: View, count: int) -> Markup | None:
    """Build the links to the pages before and after; each names the moment of the list."""
    last = max(1, -(-count // PAGE_SIZE))

    def link(title: str, page: int) -> Markup | None:
        if not 1 <= page <= last or page == view.page:
            return None
        values = {**view.filters, "as_of": view.as_of.isoformat(), "page": page}
        return build("a", title, href=f"{path}?{urlencode(values)}")

    return build(
        "nav",
        link("Newest", 1),
        link("Newer", view.page - 1),
        build("span", f"page {view.page} of {last}, {count} in all"),
        link("Older", view.page + 1),
        link("Oldest", last),
        class_="pages",
        aria_label="Pages of the list",
    )
