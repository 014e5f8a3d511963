"""A payment that ended without a result keeps the reason, and its receipt if it was paid."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("faregate_journal", "0002_unfetched"),)

    operations = (
        migrations.RemoveConstraint(model_name="journalrow", name="faregate_settled_has_its_receipt"),
        migrations.RemoveConstraint(model_name="journalrow", name="faregate_stuck_for_a_reason"),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "paid"),
                    models.Q(("state__in", ("settled",)), ("receipt__isnull", False)),
                    models.Q(
                        models.Q(("state__in", ("settled",)), _negated=True),
                        models.Q(("receipt__isnull", False), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="faregate_settled_has_its_receipt",
            ),
        ),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ("stuck",)), models.Q(("reason", ""), _negated=True)),
                    models.Q(models.Q(("state__in", ("stuck",)), _negated=True), ("reason", "")),
                    ("state__in", ("closed", "paid")),
                    _connector="OR",
                ),
                name="faregate_stuck_for_a_reason",
            ),
        ),
    )
