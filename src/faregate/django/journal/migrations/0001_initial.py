"""The first table of the journal."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = (
        migrations.CreateModel(
            name="JournalRow",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("namespace", models.CharField(max_length=255)),
                ("stamp", models.BigIntegerField()),
                ("fence", models.BigIntegerField()),
                ("state", models.CharField(max_length=16)),
                ("request", models.CharField(max_length=64)),
                ("transaction_id", models.CharField(max_length=128, null=True)),
                ("revision_id", models.CharField(blank=True, max_length=128)),
                ("lease_until", models.FloatField()),
                ("due_at", models.FloatField()),
                ("expires_at", models.FloatField(null=True)),
                ("delivered", models.BooleanField()),
                ("redelivered", models.PositiveIntegerField()),
                ("holds_so_far", models.PositiveIntegerField()),
                ("size", models.PositiveBigIntegerField()),
                ("outcome", models.CharField(max_length=16, null=True)),
                ("proof", models.BinaryField(null=True)),
                ("payment_response", models.BinaryField(null=True)),
                ("result", models.BinaryField(null=True)),
            ],
            options={
                "verbose_name": "journal row",
                "indexes": [
                    models.Index(
                        models.F("namespace"),
                        models.F("lease_until"),
                        condition=models.Q(("expires_at__isnull", True)),
                        name="faregate_owed",
                    ),
                    models.Index(
                        models.F("namespace"),
                        models.F("expires_at"),
                        models.F("size"),
                        name="faregate_expiring",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "transaction_id"), name="faregate_one_row_per_transaction"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                ("claimed", "waiting", "running", "decided", "released", "closed", "paid"),
                            )
                        ),
                        name="faregate_known_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("claimed",)), ("transaction_id__isnull", True)),
                            models.Q(
                                models.Q(("state__in", ("claimed",)), _negated=True),
                                models.Q(("transaction_id__isnull", True), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_claimed_has_no_transaction",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ("waiting", "running", "decided")), ("expires_at__isnull", True)
                            ),
                            models.Q(
                                models.Q(("state__in", ("waiting", "running", "decided")), _negated=True),
                                models.Q(("expires_at__isnull", True), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_owed_never_expires",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("decided", "released")), ("outcome__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("decided", "released")), _negated=True),
                                models.Q(("outcome__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_decided_has_outcome",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("decided", "released")), ("result__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("decided", "released")), _negated=True),
                                models.Q(("result__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_decided_has_result",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "released"), _negated=True),
                            ("outcome", "succeeded"),
                            _connector="OR",
                        ),
                        name="faregate_released_is_a_success",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("released",)), ("payment_response__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("released",)), _negated=True),
                                models.Q(("payment_response__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_released_is_paid",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ("claimed", "waiting", "running", "decided")),
                                ("proof__isnull", False),
                            ),
                            models.Q(
                                models.Q(
                                    ("state__in", ("claimed", "waiting", "running", "decided")), _negated=True
                                ),
                                models.Q(("proof__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_proof_until_final",
                    ),
                ],
            },
        ),
    )
