"""The journal in Django's admin: read-only, without proofs and results."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from faregate.cli.holds import make_printable
from faregate.django.journal import make_journal
from faregate.django.journal.models import JournalRow
from faregate.django.options import find_journal_database
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.payment_info import PaymentInfo, parse_reference
from faregate.journals.store import ENCRYPTED
from faregate.journals.urls import JournalContext
from faregate.maintenance.customer_answers import Explanation, explain
from faregate.maintenance.journal import JournalView, make_view

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[JournalRow]
else:
    ModelAdmin = admin.ModelAdmin

_SHOWN = ("transaction_id", "state", "reason", "size", "claimed", "leased_until", "due", "expires")


_TOLD = ("what_happened", "next_step", "bought", "payer_address", "chain_hash")


@admin.register(JournalRow)
class JournalRowAdmin(ModelAdmin):
    list_display = _SHOWN
    list_filter = ("state", "namespace")
    search_fields = ("transaction_id",)
    search_help_text = "A transaction, a chain hash or a payer's address"
    ordering = ("-lease_until",)
    fields = (*_TOLD, "namespace", "revision_id", *_SHOWN, "delivered", "redelivered", "holds_so_far")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[JournalRow]:
        """Query the journal's database; if the journal is elsewhere, the one that Django's router names."""
        # Results may have megabytes, and nothing of them is shown.
        rows = super().get_queryset(request).defer(*ENCRYPTED)
        using = find_journal_database()
        return rows if using is None else rows.using(using)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[JournalRow], search_term: str
    ) -> tuple[QuerySet[JournalRow], bool]:
        """Find the payments of a chain hash or a payer, whose columns are encrypted, as well."""
        try:
            reference = parse_reference(search_term)
        except ValueError:
            return super().get_search_results(request, queryset, search_term)
        view = _get_view()
        payments = [payment for reader in view.read_own() for payment in reader.find(reference).payments]
        return queryset.filter(transaction_id__in=[payment.transaction_id for payment in payments]), False

    @admin.display(description="what happened")
    def what_happened(self, row: JournalRow) -> str:
        return _explain(row)[1].summary

    @admin.display(description="next step")
    def next_step(self, row: JournalRow) -> str:
        return _explain(row)[1].next_step

    @admin.display(description="request")
    def bought(self, row: JournalRow) -> str:
        return make_printable(_explain(row)[0].request_line)

    @admin.display(description="payer")
    def payer_address(self, row: JournalRow) -> str:
        return _explain(row)[0].payer

    @admin.display(description="chain hash")
    def chain_hash(self, row: JournalRow) -> str:
        return _explain(row)[0].transaction_hash

    @admin.display(description="claimed at")
    def claimed(self, row: JournalRow) -> datetime:
        return _to_datetime(row.since)

    @admin.display(description="leased until")
    def leased_until(self, row: JournalRow) -> datetime:
        return _to_datetime(row.lease_until)

    @admin.display(description="due for the sweep")
    def due(self, row: JournalRow) -> datetime | None:
        never = row.expires_at is not None or row.state == "stuck"
        return None if never else _to_datetime(max(row.lease_until, row.due_at))

    @admin.display(description="forgotten after")
    def expires(self, row: JournalRow) -> datetime | None:
        return None if row.expires_at is None else _to_datetime(row.expires_at)


def _get_view() -> JournalView:
    """All namespaces of the journal's database. No API key is needed."""
    context = JournalContext("", "", DEFAULT_POLICY)
    return make_view(make_journal(context, using=find_journal_database() or "default"), None)


def _explain(row: JournalRow) -> tuple[PaymentInfo, Explanation]:
    """Explain a row, once for each object that a page is made of."""
    explained: tuple[PaymentInfo, Explanation] | None = vars(row).get("_explained")
    if explained is None:
        view = _get_view()
        with view.journal.read_namespace(row.namespace) as reader:
            info = reader.describe(bytes.fromhex(row.key))
        explained = info, explain(info, view)
        vars(row)["_explained"] = explained
    return explained


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
