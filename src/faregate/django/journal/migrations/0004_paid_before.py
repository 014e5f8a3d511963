"""A delivered payment is remembered without its result, and a payment is found in another encoding."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from faregate.journals.durations import DEFAULT_POLICY


def remember_settled(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    rows = apps.get_model("faregate_journal", "JournalRow").objects.using(editor.connection.alias)
    until = models.F("expires_at") + DEFAULT_POLICY.delivered_retention
    rows.filter(state="settled").update(forget_at=until)


class Migration(migrations.Migration):
    dependencies = (("faregate_journal", "0003_reasons_and_receipts"),)

    operations = (
        migrations.AddField(
            model_name="journalrow",
            name="authorization_hash",
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.AddField(model_name="journalrow", name="forget_at", field=models.FloatField(null=True)),
        migrations.RunPython(remember_settled, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="journalrow",
            index=models.Index(fields=["namespace", "authorization_hash"], name="faregate_authorizations"),
        ),
        migrations.AddConstraint(
            model_name="journalrow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "paid"),
                    models.Q(("state__in", ("settled",)), ("forget_at__isnull", False)),
                    models.Q(
                        models.Q(("state__in", ("settled",)), _negated=True),
                        models.Q(("forget_at__isnull", False), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="faregate_settled_is_remembered",
            ),
        ),
    )
