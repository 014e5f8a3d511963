"""The journal in Django's admin: read-only, without the encrypted columns."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from faregate.django.journal.models import JournalRow
from faregate.django.options import find_journal_database
from faregate.journals.store import ENCRYPTED

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[JournalRow]
else:
    ModelAdmin = admin.ModelAdmin

_SHOWN = ("transaction_id", "state", "reason", "size", "claimed", "leased_until", "due", "expires")


@admin.register(JournalRow)
class JournalRowAdmin(ModelAdmin):
    list_display = _SHOWN
    list_filter = ("state", "namespace")
    search_fields = ("transaction_id",)
    ordering = ("-lease_until",)
    fields = ("namespace", "revision_id", *_SHOWN, "generation", "delivered", "redelivered", "holds_so_far")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[JournalRow]:
        """Query the journal's database; if the journal is elsewhere, the one that Django's router names."""
        rows = super().get_queryset(request).defer(*ENCRYPTED)
        using = find_journal_database()
        return rows if using is None else rows.using(using)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: JournalRow | None = None) -> bool:
        return False

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


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
