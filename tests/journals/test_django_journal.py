"""What is the Django journal's own: transactions that are not ours, keys, and the admin."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import InProgress, Replayable
from faregate.errors import ConfigurationError, JournalError
from faregate.journals.persistent import PersistentJournal
from faregate.paywall import Paywall
from tests import django_site
from tests.journals.stores import STEADY

django_site.ready()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402
from django.test import Client, TestCase, override_settings  # noqa: E402

from faregate.django.journal import make_journal  # noqa: E402
from faregate.django.journal.models import JournalRow  # noqa: E402
from faregate.django.journal.store import DjangoStore, derive_keys  # noqa: E402
from faregate.journals.durations import JournalPolicy  # noqa: E402
from faregate.journals.urls import JournalContext  # noqa: E402
from tests.core.flow_script import ACR, OTHER_TXN, TXN  # noqa: E402
from tests.journals.canaries import find_leaks, write_canaries  # noqa: E402
from tests.journals.rows import GOOD, HERE, WORK_SECONDS, decided, fresh, released, started  # noqa: E402


@pytest.fixture(autouse=True)
def no_rows() -> None:
    """Other files of the suite use the same database, before this one or after it."""
    JournalRow.objects.all().delete()


def context(namespace: str) -> JournalContext:
    return JournalContext(namespace, "seller", STEADY)


@pytest.fixture
def journal(tmp_path: Path) -> Generator[PersistentJournal]:
    made = make_journal(context(str(tmp_path)))
    yield made
    made.disconnect()


def test_the_migration_matches_the_model() -> None:
    call_command("makemigrations", "faregate_journal", check=True, dry_run=True, verbosity=0)


# Somebody else's transaction


def test_inside_an_open_transaction_nothing_is_written_or_read(journal: PersistentJournal) -> None:
    lease = fresh(journal.claim("proof", HERE))
    calls: list[Any] = [
        lambda: journal.claim("another", HERE),
        lambda: journal.claim("proof", HERE),
        lambda: journal.record_transaction(lease, TXN, ACR, WORK_SECONDS),
        lambda: journal.abandon_claim(lease),
        journal.lease_next,
        lambda: journal._store.delete(lease.key, 0),
        lambda: journal._store.purge(0.0, 1),
    ]
    for call in calls:
        with transaction.atomic(), pytest.raises(JournalError, match="inside an open transaction"):
            call()
    assert journal.claim("proof", HERE) == InProgress()
    assert journal._store.measure() == (1, 0)


def test_a_connection_without_autocommit_counts_as_an_open_transaction(journal: PersistentJournal) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(JournalError, match="inside an open transaction"):
            journal.claim("proof", HERE)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


class InATestCase(TestCase):
    """Django exempts the block that its `TestCase` opens around each test; so does the journal."""

    def test_the_block_of_a_test_case_is_exempt(self) -> None:
        journal = make_journal(context("test case"))
        released(journal)
        assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
        assert not journal.record_transaction(fresh(journal.claim("twin", HERE)), TXN, ACR, WORK_SECONDS)
        assert journal.lease_next() is None
        assert JournalRow.objects.count() == 2

    def test_a_block_inside_it_is_not(self) -> None:
        with transaction.atomic(), pytest.raises(JournalError, match="inside an open transaction"):
            make_journal(context("test case")).claim("proof", HERE)


# The database


def test_a_database_that_fails_is_a_journal_error(journal: PersistentJournal) -> None:
    table = JournalRow._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO aside")
    try:
        with pytest.raises(JournalError, match=r"no such table.*python manage\.py migrate"):
            journal.claim("proof", HERE)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE aside RENAME TO {table}")


def test_a_row_that_was_claimed_again_is_not_purged(
    journal: PersistentJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for expired rows and their end, one of them became owed."""
    store = journal._store
    assert isinstance(store, DjangoStore)
    lease = fresh(journal.claim("proof", HERE))
    expired = store._list_expired

    def expired_and_late(now: float, limit: int) -> list[str]:
        found = expired(now, limit)
        journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
        return found

    monkeypatch.setattr(store, "_list_expired", expired_and_late)
    assert store.purge(1e12, 10) == 0
    assert store.measure() == (1, 0)


def test_a_sweep_gets_a_connection_that_works(journal: PersistentJournal) -> None:
    """Where no request ends, nobody else closes what the server has closed."""
    assert journal.lease_next() is None
    before = connections["default"].connection
    connections["default"].close_at = 0.0
    assert journal.lease_next() is None
    assert connections["default"].connection is not before


# Settings


def test_the_app_must_be_installed() -> None:
    with (
        override_settings(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"]),
        pytest.raises(ConfigurationError, match=r'add "faregate\.django\.journal" to INSTALLED_APPS'),
    ):
        make_journal(context("test"))


def test_the_database_must_be_configured() -> None:
    with pytest.raises(ConfigurationError, match="no 'archive'"):
        make_journal(context("test"), using="archive")
    with pytest.raises(ConfigurationError, match="too long"):
        make_journal(context("x" * 256))


def test_a_paywall_is_given_the_factory() -> None:
    paywall = Paywall(journal=make_journal, environ={"FAREGATE_BASE_URL": "emulator:"}, timeout=40)
    assert isinstance(paywall.journal, PersistentJournal)
    assert paywall.journal._policy == JournalPolicy.for_calls_of(40)
    assert paywall.sweep().looked_at == 0


@override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["only for tests"])
def test_rows_encrypted_with_a_fallback_secret_key_are_read(tmp_path: Path) -> None:
    with override_settings(SECRET_KEY="only for tests", SECRET_KEY_FALLBACKS=[]):
        released(make_journal(context(str(tmp_path))))
    journal = make_journal(context(str(tmp_path)))
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    assert len(set(derive_keys())) == 2
    assert b"only for tests" not in b"".join(derive_keys())


def test_nothing_of_a_payment_can_be_read_from_the_table(journal: PersistentJournal) -> None:
    assert find_leaks(write_canaries(journal, lambda: repr(list(JournalRow.objects.values())).encode())) == []


# The admin


@pytest.fixture
def admin() -> Generator[Client]:
    User.objects.filter(username="root").delete()
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    yield client
    User.objects.all().delete()


def test_the_admin_shows_no_encrypted_column(journal: PersistentJournal, admin: Client) -> None:
    decided(journal)
    started(journal, "another", OTHER_TXN)
    listed = admin.get("/admin/faregate_journal/journalrow/").content.decode()
    assert TXN in listed
    assert "running" in listed
    row = JournalRow.objects.get(transaction_id=TXN)
    shown = admin.get(f"/admin/faregate_journal/journalrow/{row.pk}/change/")
    assert shown.status_code == 200
    page = shown.content.decode()
    assert TXN in page
    assert ">ok<" in page
    for page in (listed, shown.content.decode()):
        assert [
            name
            for name in ("roof", "ayment response", "eceipt", "Result", "b&#x27;", "memory")
            if name in page
        ] == []


def test_the_admin_answers_for_a_payment(journal: PersistentJournal, admin: Client) -> None:
    """By its chain hash, which no column reveals, and with what was bought."""
    lease = started(journal)
    assert journal.record_outcome(lease, GOOD)
    payer, transaction_hash = f"0x{'ab' * 20}", f"0x{'1e' * 32}"
    receipt = json.dumps({"payment": {"payer": payer, "transaction_hash": transaction_hash}})
    journal.record_settlement(lease, "cGFpZA==", receipt, False)
    base = "/admin/faregate_journal/journalrow/"
    for quoted in (payer, transaction_hash, TXN):
        assert TXN in admin.get(base, {"q": quoted}).content.decode().partition("results")[2]
    assert "0 journal rows" in admin.get(base, {"q": f"0x{'0' * 40}"}).content.decode()
    row = JournalRow.objects.get(transaction_id=TXN)
    page = admin.get(f"{base}{row.pk}/change/").content.decode()
    for shown in ("the result was not fetched yet", "GET /summary?q=1", payer, transaction_hash):
        assert shown in page


def test_the_admin_changes_nothing(journal: PersistentJournal, admin: Client) -> None:
    decided(journal)
    row = JournalRow.objects.get(transaction_id=TXN)
    base = "/admin/faregate_journal/journalrow/"
    answers = [
        admin.get(f"{base}add/"),
        admin.post(f"{base}add/", {"state": "paid"}),
        admin.post(f"{base}{row.pk}/change/", {"state": "paid"}),
        admin.post(f"{base}{row.pk}/delete/", {"post": "yes"}),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    admin.post(base, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
    assert JournalRow.objects.get(pk=row.pk).state == "ok"
