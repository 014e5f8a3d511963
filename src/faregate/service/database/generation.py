"""The generation of a database: processes drop what they remember when it changes.

It changes when `faregate service init` runs, which is the last step of restoring a copy.
"""

import secrets
from typing import Final

from sqlalchemy import update

from faregate.service.database.engine import Database
from faregate.service.database.schema import generation

_RENEW: Final = update(generation)
_KEEP: Final = update(generation).values(id=generation.c.id)


def renew_generation(database: Database) -> None:
    """Begin another generation."""
    with database.write_statement() as connection:
        connection.execute(_RENEW, {"id": secrets.token_hex(16)})


def check_writes(database: Database) -> None:
    """Write what is there already; raise `DatabaseError` if the database cannot be written to."""
    with database.write_statement() as connection:
        connection.execute(_KEEP)
