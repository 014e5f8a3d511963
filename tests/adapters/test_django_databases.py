"""The journal in another database than the first: sold from, checked, shown, and advised about."""

from collections.abc import Generator
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.contrib.auth.decorators import login_required  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402
from faregate.django.journal.models import JournalRow  # noqa: E402
from tests.adapters.django_placement import Site, fresh, run_command  # noqa: E402
from tests.adapters.django_views import PAYWALL, project  # noqa: E402
from tests.django_site import databases  # noqa: E402
from tests.django_site.urls import urlpatterns  # noqa: E402

SECOND = {"JOURNAL": "django:second"}
SOLD = paid("daily_report")


@pytest.fixture
def second() -> Generator[None]:
    call_command("migrate", "faregate_journal", database="second", verbosity=0)
    yield
    call_command("migrate", "faregate_journal", "zero", database="second", verbosity=0)


@pytest.fixture(params=["second", "postgres", "mariadb"])
def kind(request: pytest.FixtureRequest) -> str:
    """A database other than the first, on SQLite or on a server."""
    if request.param == "second":
        request.getfixturevalue("second")
        return "second"
    return databases.add(str(request.param))


def test_a_payment_is_written_to_the_other_database_and_shown_in_the_admin(kind: str) -> None:
    User.objects.filter(username="boss").delete()
    user = User.objects.create_superuser("boss")
    before = JournalRow.objects.using("default").count()
    middleware = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        PAYWALL,
    ]
    journal = {"JOURNAL": f"django:{kind}"}
    with project(path("sold", SOLD(fresh())), *urlpatterns, FAREGATE=journal, MIDDLEWARE=middleware):
        assert Site(awaiting=False).buy().status_code == 200
        row = JournalRow.objects.using(kind).latest("pk")
        client = Client()
        client.force_login(user)
        listed = client.get("/admin/faregate_journal/journalrow/")
        shown = client.get(f"/admin/faregate_journal/journalrow/{row.pk}/change/")
    assert JournalRow.objects.using("default").count() == before
    assert str(row.transaction_id) in listed.content.decode()
    assert str(row.transaction_id) in shown.content.decode()


def test_a_missing_table_names_the_command(caplog: pytest.LogCaptureFixture) -> None:
    with project(path("sold", SOLD(fresh())), FAREGATE=SECOND):
        well, said = run_command("faregate_check")
        assert (well, "manage.py migrate --database second" in said) == (False, True)
        assert Site(awaiting=False).ask().status_code == 402
        assert Site(awaiting=False).buy().status_code == 503
    assert "manage.py migrate --database second" in caplog.text


def test_the_first_database_needs_no_name() -> None:
    settings: Any = {"FAREGATE": {"JOURNAL": "django:"}, "INSTALLED_APPS": ["faregate.django"]}
    with project(**settings):
        well, said = run_command("faregate_check")
    assert (well, "manage.py migrate." in said) == (False, True)
    with project(**{**settings, "FAREGATE": SECOND}):
        well, said = run_command("faregate_check")
    assert (well, "manage.py migrate --database second." in said) == (False, True)


def test_a_database_that_is_not_there_is_a_mistake_in_the_settings() -> None:
    with project(path("sold", SOLD(fresh())), FAREGATE={"JOURNAL": "django:nowhere"}):
        found = [one for one in checks.run_checks() if str(one.id).startswith("faregate")]
    assert [one.id for one in found] == ["faregate.E002"]
    assert "'nowhere'" in found[0].msg
    assert "DATABASES" in found[0].msg


@pytest.mark.parametrize("atomic", ["default", "second"])
def test_only_transactions_of_the_journal_s_database_are_mistakes(atomic: str) -> None:
    connections.settings[atomic]["ATOMIC_REQUESTS"] = True
    try:
        with project(path("deeper", login_required(SOLD(fresh()))), FAREGATE=SECOND):
            found = [one.id for one in checks.run_checks() if str(one.id).startswith("faregate")]
            assert ("ATOMIC_REQUESTS" in run_command("faregate_routes")[1]) == (atomic == "second")
    finally:
        connections.settings[atomic]["ATOMIC_REQUESTS"] = False
    assert found == (["faregate.E008"] if atomic == "second" else [])
