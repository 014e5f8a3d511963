"""The journal's rows. Constraints refuse what must not happen to a row."""

from typing import TYPE_CHECKING, ClassVar

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from faregate.journals.states import (
    COLUMN_RULES,
    HAS_REASON,
    MAY_HAVE_REASON,
    PAID_NO_RESULT,
    SETTLED,
    ColumnRule,
    RowState,
)

if TYPE_CHECKING:
    Text = models.CharField[str, str]
    LongText = models.TextField[str, str]
    MaybeText = models.CharField[str | None, str | None]
    Big = models.BigIntegerField[int, int]
    Count = models.PositiveIntegerField[int, int]
    Bytes = models.PositiveBigIntegerField[int, int]
    Flag = models.BooleanField[bool, bool]
    Seconds = models.FloatField[float, float]
    MaybeSeconds = models.FloatField[float | None, float | None]
    Encrypted = models.BinaryField[bytes | None, bytes | None]


def _check(rule: ColumnRule) -> CheckConstraint:
    states, optional = _get_values(rule.states), _get_values(rule.optional_in)
    condition = _exactly(Q(**{f"{rule.column}__isnull": rule.is_null}), states)
    for state in optional:
        condition = Q(state=state) | condition
    return CheckConstraint(condition=condition, name=f"faregate_{rule.name}")


def _get_values(states: tuple[RowState, ...]) -> tuple[str, ...]:
    return tuple(state.value for state in states)


def _exactly(condition: Q, states: tuple[str, ...]) -> Q:
    """`condition` holds in these states and in no other."""
    among = Q(state__in=states)
    return (among & condition) | (~among & ~condition)


UNFETCHED = Q(state=SETTLED.value, delivered=False)
"""The rows that are paid and whose result was not fetched."""


DELIVERED = Q(state=SETTLED.value, delivered=True)
"""The rows whose result was delivered, and which still have it."""
REMEMBERED = Q(state=PAID_NO_RESULT.value, delivered=True)
"""The rows whose result was delivered, and which have it no more."""


class JournalRow(models.Model):
    """One proof (`faregate.journals.store.Record`). The binary columns are encrypted."""

    id: "Big" = models.BigAutoField(primary_key=True)
    # Hexadecimal: MySQL cannot index a BinaryField (a BLOB) without a prefix length.
    key: "Text" = models.CharField(max_length=64)
    namespace: "Text" = models.CharField(max_length=255)
    stamp: "Big" = models.BigIntegerField()
    fence: "Big" = models.BigIntegerField()
    generation: "Big" = models.BigIntegerField()
    state: "Text" = models.CharField(max_length=16)
    request: "Text" = models.CharField(max_length=64)
    transaction_id: "MaybeText" = models.CharField(max_length=128, null=True)
    revision_id: "Text" = models.CharField(max_length=128, blank=True)
    since: "Seconds" = models.FloatField()
    owner: "Text" = models.CharField(max_length=32, blank=True)
    touched_at: "Seconds" = models.FloatField()
    seller: "Text" = models.CharField(max_length=32, blank=True)
    key_id: "Text" = models.CharField(max_length=16)
    client: "LongText" = models.TextField(blank=True)
    body: "Text" = models.CharField(max_length=32, blank=True)
    authorization_hash: "Text" = models.CharField(max_length=32, blank=True)
    purchase: "MaybeText" = models.CharField(max_length=32, null=True)
    lease_until: "Seconds" = models.FloatField()
    due_at: "Seconds" = models.FloatField()
    expires_at: "MaybeSeconds" = models.FloatField(null=True)
    forget_at: "MaybeSeconds" = models.FloatField(null=True)
    delivered: "Flag" = models.BooleanField()
    redelivered: "Count" = models.PositiveIntegerField()
    holds_so_far: "Count" = models.PositiveIntegerField()
    size: "Bytes" = models.PositiveBigIntegerField()
    reason: "LongText" = models.TextField(blank=True)
    proof: "Encrypted" = models.BinaryField(null=True)
    request_line: "Encrypted" = models.BinaryField(null=True)
    payer: "Encrypted" = models.BinaryField(null=True)
    payment_response: "Encrypted" = models.BinaryField(null=True)
    receipt: "Encrypted" = models.BinaryField(null=True)
    result: "Encrypted" = models.BinaryField(null=True)

    class Meta:
        verbose_name = "journal row"
        indexes: ClassVar = [
            models.Index(
                fields=["namespace", "lease_until"],
                name="faregate_owed",
                condition=Q(expires_at__isnull=True) & ~Q(state="stuck"),
            ),
            models.Index(fields=["namespace", "expires_at", "size"], name="faregate_expiring"),
            models.Index(fields=["namespace", "key_id"], name="faregate_keys"),
            models.Index(fields=["namespace", "authorization_hash"], name="faregate_authorizations"),
            models.Index(fields=["namespace", "expires_at"], name="faregate_unfetched", condition=UNFETCHED),
        ]
        constraints: ClassVar = [
            UniqueConstraint(fields=["namespace", "key"], name="faregate_one_row_per_proof"),
            UniqueConstraint(fields=["namespace", "transaction_id"], name="faregate_one_row_per_transaction"),
            UniqueConstraint(fields=["namespace", "purchase"], name="faregate_one_row_per_purchase"),
            CheckConstraint(
                condition=Q(state__in=tuple(state.value for state in RowState)), name="faregate_known_state"
            ),
            *map(_check, COLUMN_RULES),
            CheckConstraint(
                condition=_exactly(~Q(reason=""), _get_values(HAS_REASON))
                | Q(state__in=_get_values(MAY_HAVE_REASON)),
                name="faregate_stuck_for_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.transaction_id or 'no transaction yet'}: {self.state}"


class LeaseOwner(models.Model):
    """A process whose leases last longer than its rows say, and until when it is known to live."""

    id: "Text" = models.CharField(max_length=32, primary_key=True)
    until: "Seconds" = models.FloatField()
