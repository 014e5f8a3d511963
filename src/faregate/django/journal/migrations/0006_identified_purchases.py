"""A purchase that its payer has named stays until its row is forgotten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("faregate_journal", "0005_purchases"),)

    operations = (
        migrations.RemoveConstraint(model_name="journalrow", name="faregate_purchase_until_delivered"),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "paid"),
                    ("state", "settled"),
                    ("state", "stuck"),
                    ("state", "ok"),
                    ("state", "running"),
                    models.Q(
                        ("state__in", ("claimed", "open", "waiting", "failed", "closed")),
                        ("purchase__isnull", True),
                    ),
                    models.Q(
                        models.Q(
                            ("state__in", ("claimed", "open", "waiting", "failed", "closed")),
                            _negated=True,
                        ),
                        models.Q(("purchase__isnull", True), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="faregate_purchase_since_start",
            ),
        ),
    )
