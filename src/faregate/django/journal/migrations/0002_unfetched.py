"""Columns for operators, and an index of paid results that were not fetched."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("faregate_journal", "0001_initial"),)

    operations = (
        migrations.AddField(
            model_name="journalrow", name="request_line", field=models.BinaryField(null=True)
        ),
        migrations.AddField(model_name="journalrow", name="payer", field=models.BinaryField(null=True)),
        migrations.AddIndex(
            model_name="journalrow",
            index=models.Index(
                condition=models.Q(("delivered", False), ("state", "settled")),
                fields=["namespace", "expires_at"],
                name="faregate_unfetched",
            ),
        ),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "paid"),
                    ("state", "closed"),
                    models.Q(
                        (
                            "state__in",
                            ("claimed", "open", "waiting", "running", "ok", "failed", "stuck", "settled"),
                        ),
                        ("payer__isnull", True),
                    ),
                    models.Q(
                        models.Q(
                            (
                                "state__in",
                                ("claimed", "open", "waiting", "running", "ok", "failed", "stuck", "settled"),
                            ),
                            _negated=True,
                        ),
                        models.Q(("payer__isnull", True), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="faregate_payer_without_receipt",
            ),
        ),
    )
