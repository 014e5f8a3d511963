"""Payments are compared with the chain after they have succeeded, too."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database.types import code

revision = "0007"
down_revision = "0006"

# Payments that succeeded an hour before the upgrade are in safe blocks. `reconcile --all` compares them, too.
_BEGIN = """
INSERT INTO checked_payments (account, until)
SELECT account, max(finished_at) - 3600000000 FROM transactions WHERE finished_at IS NOT NULL GROUP BY account
"""


def upgrade() -> None:
    op.create_table(
        "checked_payments",
        sa.Column("account", sa.Integer, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("account", name="pk_checked_payments"),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_checked_payments_account"),
    )
    op.execute(_BEGIN)
    op.create_table(
        "loose_payments",
        sa.Column("account", sa.Integer, nullable=False),
        sa.Column("transaction", code(36), nullable=False),
        sa.Column("noticed_at", sa.BigInteger, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("transaction_hash", code(66)),
        sa.PrimaryKeyConstraint("account", "transaction", name="pk_loose_payments"),
        sa.ForeignKeyConstraint(
            ["account", "transaction"],
            ["transactions.account", "transactions.id"],
            name="fk_loose_payments_account_transaction",
        ),
    )
    is_loose = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_loose_payments_open",
        "loose_payments",
        ["next_attempt_at"],
        postgresql_where=is_loose,
        sqlite_where=is_loose,
    )
    op.create_table(
        "reconciliations",
        sa.Column("environment", sa.String(4), nullable=False),
        sa.Column("finished_at", sa.BigInteger, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("environment", name="pk_reconciliations"),
    )
