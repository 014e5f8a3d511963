"""Refunds are recorded: transfers of sellers back to payers."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database.types import Amount, code

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "refunds",
        sa.Column("account", sa.Integer, nullable=False),
        sa.Column("transaction", code(36), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("asset", code(42), nullable=False),
        sa.Column("sender", code(42), nullable=False),
        sa.Column("payer", code(42), nullable=False),
        sa.Column("amount", Amount, nullable=False),
        sa.Column("transaction_hash", code(66), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("removed_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("account", "transaction", "number", name="pk_refunds"),
        sa.ForeignKeyConstraint(
            ["account", "transaction"],
            ["transactions.account", "transactions.id"],
            name="fk_refunds_account_transaction",
        ),
    )
    is_kept = sa.text("removed_at IS NULL")
    op.create_index(
        "ix_refunds_transfer",
        "refunds",
        ["asset", "payer", "transaction_hash", "position"],
        unique=True,
        postgresql_where=is_kept,
        sqlite_where=is_kept,
    )
