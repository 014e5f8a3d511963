"""A restored database says that it is another one; refunds are recorded."""

import secrets

import sqlalchemy as sa
from alembic import op

from faregate.service.database.types import code

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    generation = op.create_table(
        "generation",
        sa.Column("id", code(36), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_generation"),
    )
    op.bulk_insert(generation, [{"id": secrets.token_hex(16)}])
