"""An authorization pays one seller only, also where several are paid at one address."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    is_real = sa.text("from_block IS NOT NULL")
    op.create_index(
        "ix_transactions_authorization",
        "transactions",
        ["asset", "payer", "nonce"],
        unique=True,
        postgresql_where=is_real,
        sqlite_where=is_real,
    )
