"""A payer's open payments are counted against its balance for all sellers together."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_COVERS = """
CREATE FUNCTION faregate_covers(
    funds numeric, value numeric, of_account integer, of_asset text, of_payer text, clock bigint,
    settled_since bigint, settled_before numeric, on_chain boolean
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF funds IS NULL THEN
        RETURN true;
    END IF;
    -- Two statements: the second sees what was committed while the first waited for the lock.
    PERFORM pg_advisory_xact_lock(402002, hashtext(of_asset || of_payer));
    -- One statement for both sums: a payment that ends meanwhile is in exactly one of them.
    RETURN value - settled_before + (
        SELECT coalesce(sum(authorized_value), 0) FROM transactions
        WHERE payer = of_payer AND asset = of_asset AND finished_at IS NULL
            AND CASE WHEN on_chain THEN from_block IS NOT NULL ELSE account = of_account END
            AND (submitted_at IS NOT NULL OR expires_at > clock)
    ) + (
        SELECT coalesce(sum(authorized_value), 0) FROM transactions
        WHERE payer = of_payer AND asset = of_asset
            AND CASE WHEN on_chain THEN from_block IS NOT NULL ELSE account = of_account END
            AND final_status = 'succeeded' AND finished_at >= settled_since
    ) <= funds;
END $$
"""
# Processes of the version before call this one until they are restarted. They count for each seller alone.
_COVERS_BEFORE = """
CREATE OR REPLACE FUNCTION faregate_covers(
    funds numeric, value numeric, of_account integer, of_asset text, of_payer text, clock bigint,
    settled_since bigint, settled_before numeric
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN faregate_covers(
        funds, value, of_account, of_asset, of_payer, clock, settled_since, settled_before, false
    );
END $$
"""
_INDEXES = {
    "ix_transactions_open": (["payer", "asset", "account"], "finished_at IS NULL"),
    "ix_transactions_settled": (["payer", "asset", "finished_at"], "final_status = 'succeeded'"),
}


def upgrade() -> None:
    for name, (columns, condition) in _INDEXES.items():
        where = sa.text(condition)
        op.drop_index(name, "transactions")
        op.create_index(name, "transactions", columns, postgresql_where=where, sqlite_where=where)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_COVERS)
        op.execute(_COVERS_BEFORE)
