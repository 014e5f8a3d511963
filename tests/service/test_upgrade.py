"""Migrations make exactly the tables that the code declares."""

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import insert, text

from faregate.errors import ConfigurationError
from faregate.rules.payments import PaymentVerified
from faregate.service.chain.received_transfers import ReceivedTransfer
from faregate.service.database.authorization import build_row
from faregate.service.database.engine import Database
from faregate.service.database.refunds import list_refunds_of, record_refund
from faregate.service.database.schema import metadata, payers, transactions
from faregate.service.database.upgrade import find_missing_migrations, upgrade
from tests.service.sales import HASH, PAYER, open_store, resolve, sign
from tests.support.threads import run_in_threads

pytestmark = pytest.mark.every_value


def test_migrations_make_the_declared_tables(empty_url: str) -> None:
    upgrade(empty_url)

    database = Database(empty_url)
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        differences: list[Any] = compare_metadata(context, metadata)
        missing = find_missing_migrations(connection)
    database.close()
    assert differences == []
    assert missing == ()


def upgrade_to(url: str, revision: str) -> None:
    """Make the tables of an earlier version."""
    config = Config()
    config.set_main_option("script_location", "faregate.service.database:migrations")
    database = Database(url)
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    database.close()


def test_payments_of_the_version_before_are_reserved_and_refunded(empty_url: str, tmp_path: Path) -> None:
    # What is sold is the same in both; the tables of this version alone can be read by this code.
    present = f"sqlite:///{tmp_path / 'present.db'}"
    upgrade(present)
    present_database = Database(present)
    context = resolve(open_store(present_database))
    present_database.close()
    payment = sign(context)
    upgrade_to(empty_url, "0009")
    database = Database(empty_url)
    with database.write() as connection:
        row = build_row(context, 1, payment, PaymentVerified(PAYER, 1), lambda kind: f"{kind}_{'0' * 32}")
        del row["echoed"], row["facilitator"]  # of later versions
        payer = {"id": "pyr_1", "address": PAYER.lower(), "identifier": PAYER, "created_at": 1}
        account = {"account": 1}
        connection.execute(insert(payers), {**account, **payer})
        connection.execute(insert(transactions), {**account, **row, "created_at": 1})

    upgrade(empty_url)

    store = open_store(database)
    assert store.account.id == account["account"]
    found = store.find_uses(context.terms.token, sign(context))
    assert found.reserved == payment.value
    other = sign(context)
    funds = PaymentVerified(PAYER, 1, 2 * payment.value - 1)
    assert store.authorize(context, other, funds, found) is None
    transfer = ReceivedTransfer(
        context.terms.token.address.lower(), context.terms.pay_to, PAYER.lower(), 1, None, HASH, 1, 0
    )
    made = record_refund(database, (store.account.id, row["id"]), transfer, 1, payment.value, 1)
    assert list_refunds_of(database, store.account.id, row["id"]) == [made]
    database.close()


def test_processes_of_the_version_before_go_on_after_the_upgrade(url: str) -> None:
    """They call the function with one argument less."""
    database = Database(url)
    with database.write() as connection:
        if not database.is_sqlite:
            for funds, covers in ((5, True), (4, False), (None, True)):
                call = text("SELECT faregate_covers(:funds, 5, 1, 'asset', 'payer', 0, 0, 0)")
                assert connection.execute(call, {"funds": funds}).scalar_one() is covers
    database.close()


def test_a_database_without_tables_lacks_all_migrations(empty_url: str) -> None:
    database = Database(empty_url)
    with database.read() as connection:
        missing = find_missing_migrations(connection)
    database.close()
    assert missing[0] == "0001"


def test_processes_that_start_at_once_upgrade_once(empty_url: str) -> None:
    failures: list[Exception] = []

    def run() -> None:
        try:
            upgrade(empty_url)
        except Exception as error:
            failures.append(error)

    run_in_threads(*[run] * 4)
    assert failures == []


def test_a_database_of_a_newer_version_is_left_alone(url: str) -> None:
    database = Database(url)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(ConfigurationError, match="9999"):
        upgrade(url)
