"""A balance that was read before another payment of its payer succeeded covers nothing twice."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_DROP = "DROP FUNCTION faregate_covers(numeric, numeric, integer, text, text, bigint)"
_COVERS = """
CREATE FUNCTION faregate_covers(
    funds numeric, value numeric, of_account integer, of_asset text, of_payer text, clock bigint,
    settled_since bigint, settled_before numeric
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF funds IS NULL THEN
        RETURN true;
    END IF;
    -- Two statements: the second sees what was committed while the first waited for the lock.
    PERFORM pg_advisory_xact_lock(402002, hashtext(of_account || of_asset || of_payer));
    -- One statement for both sums: a payment that ends meanwhile is in exactly one of them.
    RETURN value - settled_before + (
        SELECT coalesce(sum(authorized_value), 0) FROM transactions
        WHERE account = of_account AND payer = of_payer AND asset = of_asset AND finished_at IS NULL
            AND (submitted_at IS NOT NULL OR expires_at > clock)
    ) + (
        SELECT coalesce(sum(authorized_value), 0) FROM transactions
        WHERE account = of_account AND payer = of_payer AND asset = of_asset
            AND final_status = 'succeeded' AND finished_at >= settled_since
    ) <= funds;
END $$
"""


def upgrade() -> None:
    has_succeeded = sa.text("final_status = 'succeeded'")
    op.create_index(
        "ix_transactions_settled",
        "transactions",
        ["account", "payer", "asset", "finished_at"],
        postgresql_where=has_succeeded,
        sqlite_where=has_succeeded,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_DROP)
        op.execute(_COVERS)
