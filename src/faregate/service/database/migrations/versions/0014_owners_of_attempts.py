"""An attempt names the process that makes it, so that the lease of one that has died is over at once."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("owner", sa.String(64)))
