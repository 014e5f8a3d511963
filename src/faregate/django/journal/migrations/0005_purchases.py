"""Of a payer's payments for one request, one runs at a time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("faregate_journal", "0004_paid_before"),)

    operations = (
        migrations.AddField(
            model_name="journalrow", name="purchase", field=models.CharField(max_length=32, null=True)
        ),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.UniqueConstraint(
                fields=("namespace", "purchase"), name="faregate_one_row_per_purchase"
            ),
        ),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "settled"),
                    ("state", "stuck"),
                    ("state", "ok"),
                    ("state", "running"),
                    models.Q(
                        ("state__in", ("claimed", "open", "waiting", "failed", "closed", "paid")),
                        ("purchase__isnull", True),
                    ),
                    models.Q(
                        models.Q(
                            ("state__in", ("claimed", "open", "waiting", "failed", "closed", "paid")),
                            _negated=True,
                        ),
                        models.Q(("purchase__isnull", True), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="faregate_purchase_until_delivered",
            ),
        ),
    )
