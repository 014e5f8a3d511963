"""Two calls at the same time reserve no funds twice; a name in American spelling."""

from alembic import op

revision = "0003"
down_revision = "0002"

_COVERS = """
CREATE FUNCTION faregate_covers(
    funds numeric, value numeric, of_account integer, of_asset text, of_payer text, clock bigint
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF funds IS NULL THEN
        RETURN true;
    END IF;
    -- Two statements: the second sees what was committed while the first waited for the lock.
    PERFORM pg_advisory_xact_lock(402002, hashtext(of_account || of_asset || of_payer));
    RETURN (
        SELECT value + coalesce(sum(authorized_value), 0) <= funds FROM transactions
        WHERE account = of_account AND payer = of_payer AND asset = of_asset AND finished_at IS NULL
            AND (submitted_at IS NOT NULL OR expires_at > clock)
    );
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_COVERS)
    op.alter_column("accounts", "catalogue", new_column_name="catalog_changes")
