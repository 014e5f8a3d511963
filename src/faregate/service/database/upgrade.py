"""Create the tables, or bring them to the version of this package."""

from contextlib import closing
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from faregate.errors import ConfigurationError
from faregate.service.database.clock import LOCK_ALL
from faregate.service.database.engine import Database

_LOCATION: Final = "faregate.service.database:migrations"


def upgrade(url: str) -> None:
    """Run the migrations that the database lacks, in one transaction. Processes take turns.

    Raises `ConfigurationError` if a newer version of the package wrote it, `DatabaseError`.
    """
    with closing(Database(url, pool_size=1)) as database, database.write() as connection:
        if not database.is_sqlite:
            connection.execute(LOCK_ALL)
        config = _build_config()
        _check_known(connection, config, database.name)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def find_missing_migrations(connection: Connection) -> tuple[str, ...]:
    """Return the numbers of the migrations that the database lacks, oldest first."""
    scripts = ScriptDirectory.from_config(_build_config())
    current = MigrationContext.configure(connection).get_current_revision()
    revisions = [script.revision for script in reversed(list(scripts.walk_revisions()))]
    # A database of a newer version lacks nothing: running processes stay ready while others are upgraded.
    return tuple(
        revisions
        if current is None
        else revisions[revisions.index(current) + 1 :]
        if current in revisions
        else ()
    )


def is_new(connection: Connection) -> bool:
    """Return whether no migration was run yet."""
    return MigrationContext.configure(connection).get_current_revision() is None


def _check_known(connection: Connection, config: Config, name: str) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in revisions:
        raise ConfigurationError(
            f"The database {name} has migration {current}, which this faregate does not know: use the newer "
            "faregate that wrote it."
        )


def _build_config() -> Config:
    config = Config()
    config.set_main_option("script_location", _LOCATION)
    return config
