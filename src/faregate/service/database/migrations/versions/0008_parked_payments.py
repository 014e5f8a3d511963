"""A payment whose attempts an operator has stopped; a submitted payment is never only authorized."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

# Later than every list that was answered: a list never changes.
_SETTLE_SUBMITTED = """
UPDATE transactions SET settling_at = (
    SELECT CASE WHEN transactions.submitted_at > fence THEN transactions.submitted_at ELSE fence + 1 END
    FROM accounts WHERE accounts.id = transactions.account
)
WHERE submitted_at IS NOT NULL AND finished_at IS NULL AND settling_at IS NULL AND reconciling_at IS NULL
"""


def upgrade() -> None:
    op.add_column("transactions", sa.Column("parked_at", sa.BigInteger()))
    op.add_column("transactions", sa.Column("parked_reason", sa.String(500)))
    is_parked = sa.text("parked_at IS NOT NULL")
    op.create_index(
        "ix_transactions_parked",
        "transactions",
        ["account", "id"],
        postgresql_where=is_parked,
        sqlite_where=is_parked,
    )
    op.execute(_SETTLE_SUBMITTED)
