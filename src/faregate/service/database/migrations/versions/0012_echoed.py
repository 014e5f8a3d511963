"""What a payer's client echoes for catalogues is kept, for the facilitator that settles the payment."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("transactions", sa.Column("echoed", sa.Text))
