"""The first tables."""

import sqlalchemy as sa
from alembic import op

from faregate.service.database import types

revision = "0001"
down_revision = None

_STAMP = """
CREATE FUNCTION faregate_stamp(account integer, moment bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- Two statements: the second sees what was committed while the first waited for the lock.
    PERFORM pg_advisory_xact_lock_shared(402001, account);
    RETURN (SELECT greatest(moment, fence + 1) FROM accounts WHERE id = account);
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_STAMP)
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("org", types.code(36), nullable=False),
        sa.Column("environment", sa.String(length=4), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("pay_to", types.code(42), nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("catalogue", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("environment IN ('test', 'live')", name=op.f("ck_accounts_environment")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("org", "environment", name=op.f("uq_accounts_org_environment")),
    )
    op.create_table(
        "executions",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("revision", types.code(36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_executions")),
    )
    op.create_table(
        "gas_accounts",
        sa.Column("chain", sa.BigInteger(), nullable=False),
        sa.Column("address", types.code(42), nullable=False),
        sa.Column("next_nonce", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "address", name=op.f("pk_gas_accounts")),
    )
    op.create_table(
        "payers",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("address", types.code(42), nullable=False),
        sa.Column("identifier", types.code(42), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_payers")),
        sa.UniqueConstraint("account", "address", name=op.f("uq_payers_account_address")),
    )
    op.create_index(
        op.f("ix_payers_account_created_at_id"), "payers", ["account", "created_at", "id"], unique=False
    )
    op.create_table(
        "simulated_balances",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("asset", types.code(42), nullable=False),
        sa.Column("address", types.code(42), nullable=False),
        sa.Column("balance", types.Amount(), nullable=False),
        sa.PrimaryKeyConstraint("account", "asset", "address", name=op.f("pk_simulated_balances")),
    )
    op.create_table(
        "simulated_rules",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("target", sa.String(length=42), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("account", "target", name=op.f("pk_simulated_rules")),
    )
    op.create_table(
        "simulated_transfers",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("asset", types.code(42), nullable=False),
        sa.Column("payer", types.code(42), nullable=False),
        sa.Column("nonce", types.code(66), nullable=False),
        sa.Column("transaction_hash", types.code(66), nullable=False),
        sa.PrimaryKeyConstraint("account", "asset", "payer", "nonce", name=op.f("pk_simulated_transfers")),
    )
    op.create_table(
        "transactions",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("payment_request_id", types.code(36), nullable=False),
        sa.Column("payer", types.code(42), nullable=False),
        sa.Column("resource", types.code(36), nullable=False),
        sa.Column("resource_version", sa.Integer(), nullable=False),
        sa.Column("revision", types.code(36), nullable=False),
        sa.Column("url", sa.String(length=2048), nullable=False),
        sa.Column("mime_type", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=False),
        sa.Column("asset", types.code(42), nullable=False),
        sa.Column("amount", types.Amount(), nullable=False),
        sa.Column("pay_to", types.code(42), nullable=False),
        sa.Column("max_timeout_seconds", sa.BigInteger(), nullable=False),
        sa.Column("proof_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("authorized_to", types.code(42), nullable=False),
        sa.Column("authorized_value", types.Amount(), nullable=False),
        sa.Column("valid_after", sa.String(length=78), nullable=False),
        sa.Column("valid_before", sa.String(length=78), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("nonce", types.code(66), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settling_at", sa.BigInteger(), nullable=True),
        sa.Column("reconciling_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("final_status", sa.String(length=9), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("submitted_at", sa.BigInteger(), nullable=True),
        sa.Column("transaction_hash", types.code(66), nullable=True),
        sa.Column("payment_response", sa.Text(), nullable=True),
        sa.Column("receipt", sa.Text(), nullable=True),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("from_block", sa.BigInteger(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.Column("reads", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "(final_status = 'succeeded') = (receipt IS NOT NULL)", name=op.f("ck_transactions_receipt")
        ),
        sa.CheckConstraint(
            "(finished_at IS NULL) = (final_status IS NULL) AND final_status IN ('failed', 'succeeded')",
            name=op.f("ck_transactions_final_status"),
        ),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_transactions")),
        sa.UniqueConstraint(
            "account", "asset", "payer", "nonce", name=op.f("uq_transactions_account_asset_payer_nonce")
        ),
        sa.UniqueConstraint("account", "proof_hash", name=op.f("uq_transactions_account_proof_hash")),
    )
    op.create_index(
        op.f("ix_transactions_account_created_at_id"),
        "transactions",
        ["account", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_transactions_account_finished_at"), "transactions", ["account", "finished_at"], unique=False
    )
    op.create_index(
        op.f("ix_transactions_account_payer_created_at_id"),
        "transactions",
        ["account", "payer", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        "ix_transactions_due",
        "transactions",
        ["account", "next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
        sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
    )
    op.create_index(
        "ix_transactions_final",
        "transactions",
        ["account", "final_status", "created_at", "id", "finished_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NOT NULL"),
        sqlite_where=sa.text("finished_at IS NOT NULL"),
    )
    op.create_index(
        "ix_transactions_open",
        "transactions",
        ["account", "payer", "asset"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
        sqlite_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "api_keys",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("key_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("last_four", sa.String(length=4), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name=op.f("fk_api_keys_account")),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_api_keys_key_hash")),
    )
    op.create_table(
        "attempts",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("transaction", types.code(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.String(length=500), nullable=True),
        sa.Column("transaction_hash", types.code(66), nullable=True),
        sa.Column("sender", types.code(42), nullable=True),
        sa.Column("chain", sa.BigInteger(), nullable=True),
        sa.Column("gas_nonce", sa.BigInteger(), nullable=True),
        sa.Column("raw", sa.Text(), nullable=True),
        sa.Column("replaces", types.code(66), nullable=True),
        sa.Column("signed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account", "transaction"],
            ["transactions.account", "transactions.id"],
            name=op.f("fk_attempts_account_transaction"),
        ),
        sa.PrimaryKeyConstraint("account", "transaction", "number", name=op.f("pk_attempts")),
    )
    op.create_index(
        "ix_attempts_gas_nonce",
        "attempts",
        ["chain", "sender", "gas_nonce"],
        unique=False,
        postgresql_where=sa.text("raw IS NOT NULL"),
        sqlite_where=sa.text("raw IS NOT NULL"),
    )
    op.create_table(
        "resources",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("key", sa.String(length=100), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name=op.f("fk_resources_account")),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_resources")),
        sa.UniqueConstraint("account", "key", name=op.f("uq_resources_account_key")),
    )
    op.create_table(
        "resource_versions",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("resource", types.code(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=False),
        sa.Column("active_revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("description", sa.String(length=500), nullable=False),
        sa.Column("image_url", sa.String(length=200), nullable=True),
        sa.Column("require_payment", sa.Boolean(), nullable=False),
        sa.Column("show_key", sa.Boolean(), nullable=False),
        sa.Column("max_timeout_seconds", sa.BigInteger(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.Column("settlement", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account", "resource"],
            ["resources.account", "resources.id"],
            name=op.f("fk_resource_versions_account_resource"),
        ),
        sa.PrimaryKeyConstraint("account", "resource", "number", name=op.f("pk_resource_versions")),
    )
    op.create_table(
        "revisions",
        sa.Column("account", sa.Integer(), nullable=False),
        sa.Column("id", types.code(36), nullable=False),
        sa.Column("resource", types.code(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("revision_key", types.code(36), nullable=True),
        sa.Column("amount", types.Amount(), nullable=False),
        sa.Column("asset", sa.String(length=4), nullable=False),
        sa.Column("chain", sa.BigInteger(), nullable=False),
        sa.Column("token_address", types.code(42), nullable=False),
        sa.Column("token_name", sa.String(length=50), nullable=False),
        sa.Column("token_version", sa.String(length=10), nullable=False),
        sa.Column("value_rules", sa.Text(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=True),
        sa.Column("price_id", types.code(36), nullable=False),
        sa.Column("price_label", sa.String(length=200), nullable=False),
        sa.Column("own_price_label", sa.String(length=200), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account", "resource"],
            ["resources.account", "resources.id"],
            name=op.f("fk_revisions_account_resource"),
        ),
        sa.PrimaryKeyConstraint("account", "id", name=op.f("pk_revisions")),
        sa.UniqueConstraint(
            "account", "resource", "number", name=op.f("uq_revisions_account_resource_number")
        ),
    )
