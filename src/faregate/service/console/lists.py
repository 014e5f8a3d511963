"""The lists: payments, payers, resources. Each shows one moment, which its links to other pages name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from faregate.merchant.formats import ID_TAIL
from faregate.rules.catalog import Listing
from faregate.rules.http import ParsedListQuery
from faregate.rules.records import STATUSES
from faregate.service.console.layout import ROOT, Viewer, render_page
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.transactions import StoredTransaction
from faregate.x402.tokens import format_price

PAGE_SIZE: Final = 25
_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]{40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class View:
    """What of a list is asked for. `filters` are those that are set."""

    as_of: datetime
    page: int
    filters: Mapping[str, str]

    @property
    def query(self) -> ParsedListQuery:
        return ParsedListQuery(self.as_of, True, self.page, PAGE_SIZE, dict(self.filters))


@dataclass(frozen=True, slots=True)
class Pages:
    """The place of a page in its list, with names and addresses of the pages before and after it."""

    page: int
    last: int
    count: int
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]


def show_payments(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show a page of payments, newest first, of a status and a payer if they are given."""
    status, payer = view.filters.get("status"), view.filters.get("payer")
    if status not in STATUSES:
        status = None
    page = store.list_transactions(view.query, status, _find_payer_id(store, payer))
    path = f"{ROOT}/payments"
    return render_page(
        viewer,
        "payments.html",
        path,
        "Payments",
        statuses=STATUSES,
        status=status,
        payer=payer,
        as_of=view.as_of,
        payments=page.records,
        format_amount=format_amount,
        pages=_list_pages(path, view, page.count),
    )


def _find_payer_id(store: SqlStore, given: str | None) -> str | None:
    """Return the id of the payer that is given by id or address; an unused id if there is none."""
    if given is None or _PAYER_ID.fullmatch(given):
        return given
    payer_id = store.find_payer_id(given) if _ADDRESS.fullmatch(given) else None
    return payer_id or "nobody"


def format_amount(payment: StoredTransaction) -> str:
    """Write what the payment takes: its price, or of a maximum what was used."""
    terms, used = payment.context.terms, payment.used_atomic
    price = format_price(terms.amount, terms.token.symbol)
    if terms.scheme == "exact":
        return price
    return f"up to {price}" if used is None else f"{format_price(used, terms.token.symbol)} of {price}"


def show_payers(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show a page of payers, those who came last first."""
    page = store.list_payers(view.query)
    path = f"{ROOT}/payers"
    pages = _list_pages(path, view, page.count)
    return render_page(viewer, "payers.html", path, "Payers", payers=page.records, pages=pages)


def show_resources(viewer: Viewer, store: SqlStore, view: View) -> bytes:
    """Show all resources with their prices, archived ones last."""
    listings = sorted(store.list_resources(view.as_of), key=lambda listing: listing.is_archived(view.as_of))
    return render_page(
        viewer,
        "resources.html",
        f"{ROOT}/resources",
        "Resources",
        listings=listings,
        as_of=view.as_of,
        format_listing=_format_listing,
    )


def _format_listing(listing: Listing) -> str:
    revision = listing.active
    return revision.rules.default_price_label if listing.require_payment else "free"


def _list_pages(path: str, view: View, count: int) -> Pages:
    """List the pages before and after; each address names the moment of the list."""
    last = max(1, -(-count // PAGE_SIZE))

    def link(*targets: tuple[str, int]) -> Iterator[tuple[str, str]]:
        for name, page in targets:
            if 1 <= page <= last and page != view.page:
                values = {**view.filters, "as_of": view.as_of.isoformat(), "page": page}
                yield name, f"{path}?{urlencode(values)}"

    before = tuple(link(("Newest", 1), ("Newer", view.page - 1)))
    return Pages(view.page, last, count, before, tuple(link(("Older", view.page + 1), ("Oldest", last))))
