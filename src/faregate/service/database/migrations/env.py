"""How Alembic runs the migrations: on the connection that `upgrade.py` made, in its transaction."""

from alembic import context

from faregate.service.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
