"""The tables of the journal."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = (
        migrations.CreateModel(
            name="LeaseOwner",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("until", models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name="JournalRow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=64)),
                ("namespace", models.CharField(max_length=255)),
                ("stamp", models.BigIntegerField()),
                ("fence", models.BigIntegerField()),
                ("generation", models.BigIntegerField()),
                ("state", models.CharField(max_length=16)),
                ("request", models.CharField(max_length=64)),
                ("transaction_id", models.CharField(max_length=128, null=True)),
                ("revision_id", models.CharField(blank=True, max_length=128)),
                ("since", models.FloatField()),
                ("owner", models.CharField(blank=True, max_length=32)),
                ("touched_at", models.FloatField()),
                ("seller", models.CharField(blank=True, max_length=32)),
                ("key_id", models.CharField(max_length=16)),
                ("client", models.TextField(blank=True)),
                ("body", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.FloatField()),
                ("due_at", models.FloatField()),
                ("expires_at", models.FloatField(null=True)),
                ("delivered", models.BooleanField()),
                ("redelivered", models.PositiveIntegerField()),
                ("holds_so_far", models.PositiveIntegerField()),
                ("size", models.PositiveBigIntegerField()),
                ("reason", models.TextField(blank=True)),
                ("proof", models.BinaryField(null=True)),
                ("payment_response", models.BinaryField(null=True)),
                ("receipt", models.BinaryField(null=True)),
                ("result", models.BinaryField(null=True)),
            ],
            options={
                "verbose_name": "journal row",
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("expires_at__isnull", True), models.Q(("state", "stuck"), _negated=True)
                        ),
                        fields=["namespace", "lease_until"],
                        name="faregate_owed",
                    ),
                    models.Index(fields=["namespace", "expires_at", "size"], name="faregate_expiring"),
                    models.Index(fields=["namespace", "key_id"], name="faregate_keys"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "key"), name="faregate_one_row_per_proof"),
                    models.UniqueConstraint(
                        fields=("namespace", "transaction_id"), name="faregate_one_row_per_transaction"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                (
                                    "claimed",
                                    "open",
                                    "waiting",
                                    "running",
                                    "ok",
                                    "failed",
                                    "settled",
                                    "closed",
                                    "paid",
                                    "stuck",
                                ),
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
                                ("state__in", ("open", "waiting", "running", "ok", "failed", "stuck")),
                                ("expires_at__isnull", True),
                            ),
                            models.Q(
                                models.Q(
                                    ("state__in", ("open", "waiting", "running", "ok", "failed", "stuck")),
                                    _negated=True,
                                ),
                                models.Q(("expires_at__isnull", True), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_owed_never_expires",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state", "stuck"),
                            models.Q(("state__in", ("ok", "failed", "settled")), ("result__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("ok", "failed", "settled")), _negated=True),
                                models.Q(("result__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_decided_has_outcome",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("settled",)), ("payment_response__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("settled",)), _negated=True),
                                models.Q(("payment_response__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_settled_is_paid",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("settled",)), ("receipt__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ("settled",)), _negated=True),
                                models.Q(("receipt__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_settled_has_its_receipt",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("settled", "closed", "paid")), ("proof__isnull", True)),
                            models.Q(
                                models.Q(("state__in", ("settled", "closed", "paid")), _negated=True),
                                models.Q(("proof__isnull", True), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="faregate_proof_until_final",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ("stuck",)), models.Q(("reason", ""), _negated=True)),
                            models.Q(models.Q(("state__in", ("stuck",)), _negated=True), ("reason", "")),
                            _connector="OR",
                        ),
                        name="faregate_stuck_for_a_reason",
                    ),
                ],
            },
        ),
    )
