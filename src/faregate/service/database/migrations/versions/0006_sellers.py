"""Sellers have ids, and sessions of the console secrets of their own."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database import types

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("seller_id", sa.String(64), nullable=True))
    op.create_index("ix_accounts_seller", "accounts", ["seller_id", "environment"], unique=True)
    op.create_table(
        "console_sessions",
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("account", sa.Integer, nullable=False),
        sa.Column("key", types.code(36), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_console_sessions")),
        sa.ForeignKeyConstraint(
            ["account", "key"],
            ["api_keys.account", "api_keys.id"],
            name=op.f("fk_console_sessions_account_key"),
        ),
    )
