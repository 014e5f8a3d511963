"""Prices that follow the use: the rates of a revision, and what is settled of an authorization."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database.types import Amount, code

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("revisions", sa.Column("usage", sa.Text))
    op.add_column("transactions", sa.Column("facilitator", code(42)))
    op.add_column("transactions", sa.Column("used_amount", Amount))
    if op.get_bind().dialect.name == "postgresql":  # SQLite does not mind the length
        for table in ("transactions", "simulated_transfers"):
            op.alter_column(table, "nonce", type_=sa.String(78, collation="C"))
