"""Migrations make exactly the tables that the code declares."""

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from faregate.errors import ConfigurationError
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.schema import metadata
from faregate.selfhosted.database.upgrade import find_missing_migrations, upgrade
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
