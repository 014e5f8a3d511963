"""The tables. A change here needs a migration in `migrations/versions`; a test compares the two.

Account id comes first in every key and index, so that the tables can be partitioned by account. Times are
microseconds since 1970 (UTC), ids those of the Merchant API. JSON is text: it is read and written whole.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeEngine

from faregate.service.database.types import Amount, code

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
ID: Final[TypeEngine[str]] = code(36)
ADDRESS: Final[TypeEngine[str]] = code(42)
HASH: Final[TypeEngine[str]] = code(66)
NONCE: Final[TypeEngine[str]] = String(66).with_variant(String(78, collation="C"), "postgresql")
"""32 bytes of hex, or the decimal number of a Permit2 authorization. SQLite does not mind the length."""


def _required(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], **options: Any) -> Column[Any]:
    return Column(name, kind, nullable=False, **options)


def _account() -> Column[Any]:
    return _required("account", Integer)


accounts: Final = Table(
    "accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    _required("org", ID),
    # As the catalog has it. The only seller of a database may have none.
    Column("seller_id", String(64)),
    _required("environment", String(4)),
    _required("name", String(200)),
    _required("pay_to", ADDRESS),
    # Every list up to this moment was, or may have been, answered: what is written now is stamped later.
    _required("fence", BigInteger, server_default="0"),
    # Counts the changes of the catalog, so that a process knows when its copy is old.
    _required("catalog_changes", Integer, server_default="0"),
    _required("created_at", BigInteger),
    UniqueConstraint("org", "environment"),
    CheckConstraint("environment IN ('test', 'live')", name="environment"),
)
"""One row is one environment of one seller organisation."""
Index("ix_accounts_seller", accounts.c.seller_id, accounts.c.environment, unique=True)

api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("account", Integer, ForeignKey("accounts.id"), nullable=False),
    _required("id", ID),
    _required("key_hash", LargeBinary(32)),
    _required("prefix", String(16)),
    _required("last_four", String(4)),
    _required("name", String(200)),
    _required("capabilities", Text),
    _required("created_at", BigInteger),
    Column("revoked_at", BigInteger),
    PrimaryKeyConstraint("account", "id"),
    UniqueConstraint("key_hash"),  # the account is not known before the key is
)

console_sessions: Final = Table(
    "console_sessions",
    metadata,
    _required("secret_hash", LargeBinary(32)),  # the account is not known before the session is
    _account(),
    _required("key", ID),
    _required("created_at", BigInteger),
    PrimaryKeyConstraint("secret_hash"),
    ForeignKeyConstraint(["account", "key"], ["api_keys.account", "api_keys.id"]),
)
"""Logins of people at the console, with an API key each."""

resources: Final = Table(
    "resources",
    metadata,
    Column("account", Integer, ForeignKey("accounts.id"), nullable=False),
    _required("id", ID),
    _required("key", String(100)),
    _required("created_at", BigInteger),
    PrimaryKeyConstraint("account", "id"),
    UniqueConstraint("account", "key"),
)

resource_versions: Final = Table(
    "resource_versions",
    metadata,
    _account(),
    _required("resource", ID),
    _required("number", Integer),
    _required("valid_from", BigInteger),
    _required("active_revision", Integer),
    _required("name", String(200)),
    _required("description", String(500)),
    Column("image_url", String(200)),
    _required("require_payment", Boolean),
    _required("show_key", Boolean),
    _required("max_timeout_seconds", BigInteger),
    Column("archived_at", BigInteger),
    Column("settlement", Text),
    PrimaryKeyConstraint("account", "resource", "number"),
    ForeignKeyConstraint(["account", "resource"], ["resources.account", "resources.id"]),
)
"""The states of a resource, each valid from its moment on. Rows are added, never changed."""

revisions: Final = Table(
    "revisions",
    metadata,
    _account(),
    _required("id", ID),
    _required("resource", ID),
    _required("number", Integer),
    Column("revision_key", ID),
    _required("amount", Amount),
    _required("asset", String(4)),
    _required("chain", BigInteger),
    _required("token_address", ADDRESS),
    _required("token_name", String(50)),
    _required("token_version", String(10)),
    _required("value_rules", Text),
    Column("name", String(200)),
    _required("price_id", ID),
    _required("price_label", String(200)),
    Column("own_price_label", String(200)),  # as the seller gave it; null: derived from the amount
    Column("usage", Text),  # `UsageRates`, JSON; null: the price is fixed
    _required("created_at", BigInteger),
    PrimaryKeyConstraint("account", "id"),
    UniqueConstraint("account", "resource", "number"),
    ForeignKeyConstraint(["account", "resource"], ["resources.account", "resources.id"]),
)
"""Published contracts with their prices. Rows are added, never changed."""

payers: Final = Table(
    "payers",
    metadata,
    _account(),
    _required("id", ID),
    _required("address", ADDRESS),  # lower case
    _required("identifier", ADDRESS),  # the same address in checksum form
    _required("created_at", BigInteger),
    PrimaryKeyConstraint("account", "id"),
    UniqueConstraint("account", "address"),
)
Index(None, payers.c.account, payers.c.created_at, payers.c.id)

# No foreign keys to payers, revisions and resources: each would cost every sale a look-up and a lock on the
# other row. Payers, revisions and resources are never deleted.
transactions: Final = Table(
    "transactions",
    metadata,
    _account(),
    _required("id", ID),
    _required("payment_request_id", ID),
    _required("payer", ADDRESS),  # lower case
    # What was bought. Version and revision say everything else about it.
    _required("resource", ID),
    _required("resource_version", Integer),
    _required("revision", ID),
    _required("url", String(2048)),
    _required("mime_type", String(255)),
    _required("description", String(500)),
    # The terms.
    _required("asset", ADDRESS),  # the token's address
    _required("amount", Amount),
    _required("pay_to", ADDRESS),
    _required("max_timeout_seconds", BigInteger),
    # The payer's authorization. The proof itself is a secret of the payer, and is not stored.
    _required("proof_hash", LargeBinary(32)),
    _required("authorized_to", ADDRESS),
    _required("authorized_value", Amount),
    _required("valid_after", String(78)),
    _required("valid_before", String(78)),
    _required("expires_at", BigInteger),  # `valid_before` as a time, as far as times go
    _required("nonce", NONCE),
    _required("signature", Text),
    Column("facilitator", ADDRESS),  # who alone may settle it, in lower case; null with the scheme `exact`
    Column("echoed", Text),  # `SignedPayment.echoed` for a facilitator, JSON; null if it says nothing
    # How it went. A status is what the latest of these moments says.
    _required("created_at", BigInteger),
    Column("settling_at", BigInteger),
    Column("reconciling_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("final_status", String(9)),
    Column("outcome", Text),  # the accepted completion, JSON
    Column("used_amount", Amount),  # what the reported values cost; null with a fixed price
    Column("submitted_at", BigInteger),
    Column("transaction_hash", HASH),
    Column("payment_response", Text),
    Column("receipt", Text),
    # The job: a submitted payment that has not ended. The latest attempt holds the lease.
    Column("next_attempt_at", BigInteger),
    Column("lease_until", BigInteger),
    _required("attempts", Integer, server_default="0"),
    Column("from_block", BigInteger),
    # While it is parked, no attempt is made: `next_attempt_at` is null. The reason stays afterwards.
    Column("parked_at", BigInteger),
    Column("parked_reason", String(500)),
    # Of the simulated ledger.
    Column("plan", Text),
    _required("reads", Integer, server_default="0"),
    PrimaryKeyConstraint("account", "id"),
    UniqueConstraint("account", "proof_hash"),
    # A token takes each nonce of a payer once: no authorization pays twice, nor two sellers of one address
    # (`ix_transactions_authorization`).
    UniqueConstraint("account", "asset", "payer", "nonce"),
    CheckConstraint(
        "(finished_at IS NULL) = (final_status IS NULL) AND final_status IN ('failed', 'succeeded')",
        name="final_status",
    ),
    CheckConstraint("(final_status = 'succeeded') = (receipt IS NOT NULL)", name="receipt"),
)

_FINISHED: Final = text("finished_at IS NOT NULL")
Index(None, transactions.c.account, transactions.c.created_at, transactions.c.id)
Index(None, transactions.c.account, transactions.c.payer, transactions.c.created_at, transactions.c.id)
Index(
    "ix_transactions_final",
    transactions.c.account,
    transactions.c.final_status,
    transactions.c.created_at,
    transactions.c.id,
    transactions.c.finished_at,
    postgresql_where=_FINISHED,
    sqlite_where=_FINISHED,
)
Index(None, transactions.c.account, transactions.c.finished_at)
_OPEN: Final = text("finished_at IS NULL")
Index(
    "ix_transactions_open",
    # Without the account: on a chain, a payer has one balance for all sellers.
    transactions.c.payer,
    transactions.c.asset,
    transactions.c.account,  # to count those of one seller
    postgresql_where=_OPEN,
    sqlite_where=_OPEN,
)
_SUCCEEDED: Final = text("final_status = 'succeeded'")
Index(
    "ix_transactions_settled",  # what a payer paid while its balance was read
    transactions.c.payer,
    transactions.c.asset,
    transactions.c.finished_at,
    postgresql_where=_SUCCEEDED,
    sqlite_where=_SUCCEEDED,
)
_IS_REAL: Final = text("from_block IS NOT NULL")
Index(
    "ix_transactions_authorization",
    # Without the account: the chain would prove one transfer to every seller that is paid at its address.
    # Simulated payments have no block: each seller has a ledger of its own.
    transactions.c.asset,
    transactions.c.payer,
    transactions.c.nonce,
    unique=True,
    postgresql_where=_IS_REAL,
    sqlite_where=_IS_REAL,
)
_DUE: Final = text("next_attempt_at IS NOT NULL")
Index(
    "ix_transactions_due",
    transactions.c.account,
    transactions.c.next_attempt_at,
    postgresql_where=_DUE,
    sqlite_where=_DUE,
)

_PARKED: Final = text("parked_at IS NOT NULL")
Index(
    "ix_transactions_parked",
    transactions.c.account,
    transactions.c.id,
    postgresql_where=_PARKED,
    sqlite_where=_PARKED,
)

attempts: Final = Table(
    "attempts",
    metadata,
    _account(),
    _required("transaction", ID),
    _required("number", Integer),
    _required("started_at", BigInteger),
    Column("note", String(500)),  # what the answer was, for the operator
    Column("transaction_hash", HASH),
    # Signed by the service's own gas account, in direct mode.
    Column("sender", ADDRESS),
    Column("chain", BigInteger),
    Column("gas_nonce", BigInteger),
    Column("raw", Text),
    Column("replaces", HASH),
    Column("signed_at", BigInteger),  # Unix seconds
    Column("owner", String(64)),  # the process that makes it, if a lock shows whether that lives
    PrimaryKeyConstraint("account", "transaction", "number"),
    ForeignKeyConstraint(["account", "transaction"], ["transactions.account", "transactions.id"]),
)
"""What was, or may have been, sent for a payment; written before it is sent."""

_SIGNED: Final = text("raw IS NOT NULL")
Index(
    "ix_attempts_gas_nonce",
    attempts.c.chain,
    attempts.c.sender,
    attempts.c.gas_nonce,
    postgresql_where=_SIGNED,
    sqlite_where=_SIGNED,
)

gas_accounts: Final = Table(
    "gas_accounts",
    metadata,
    _required("chain", BigInteger),
    _required("address", ADDRESS),
    _required("next_nonce", BigInteger),
    PrimaryKeyConstraint("chain", "address"),
)
"""The next gas nonce of each gas account. One gas account may serve several accounts."""

generation: Final = Table("generation", metadata, _required("id", ID), PrimaryKeyConstraint("id"))
"""One row. Processes drop what they remember of the database when its id changes."""

checked_payments: Final = Table(
    "checked_payments",
    metadata,
    Column("account", Integer, ForeignKey("accounts.id"), nullable=False),
    _required("until", BigInteger),
    PrimaryKeyConstraint("account"),
)
"""Each payment that succeeded before this moment is in a safe block, or has a row in `loose_payments`."""

loose_payments: Final = Table(
    "loose_payments",
    metadata,
    _account(),
    _required("transaction", ID),
    _required("noticed_at", BigInteger),
    Column("next_attempt_at", BigInteger),  # null once it has ended
    Column("ended_at", BigInteger),
    Column("transaction_hash", HASH),  # by which it settled after all; null at the end: it never will
    PrimaryKeyConstraint("account", "transaction"),
    ForeignKeyConstraint(["account", "transaction"], ["transactions.account", "transactions.id"]),
)
"""Payments that succeeded, and whose transfer the chain does not hold any more."""

_IS_LOOSE: Final = text("ended_at IS NULL")
Index(
    "ix_loose_payments_open",
    loose_payments.c.next_attempt_at,
    postgresql_where=_IS_LOOSE,
    sqlite_where=_IS_LOOSE,
)

refunds: Final = Table(
    "refunds",
    metadata,
    _account(),
    _required("transaction", ID),
    _required("number", Integer),
    # The transfer: lower case, from the seller to the payer.
    _required("asset", ADDRESS),
    _required("sender", ADDRESS),
    _required("payer", ADDRESS),
    _required("amount", Amount),
    _required("transaction_hash", HASH),
    _required("position", Integer),  # among the token's transfers to the payer in its transaction, from 1
    _required("recorded_at", BigInteger),
    Column("removed_at", BigInteger),
    PrimaryKeyConstraint("account", "transaction", "number"),
    ForeignKeyConstraint(["account", "transaction"], ["transactions.account", "transactions.id"]),
)
"""Transfers that sellers made back to payers, as an operator has recorded them."""

_IS_KEPT: Final = text("removed_at IS NULL")
Index(
    "ix_refunds_transfer",
    # Without the account: one transfer is not a refund of two sellers.
    refunds.c.asset,
    refunds.c.payer,
    refunds.c.transaction_hash,
    refunds.c.position,
    unique=True,
    postgresql_where=_IS_KEPT,
    sqlite_where=_IS_KEPT,
)

reconciliations: Final = Table(
    "reconciliations",
    metadata,
    _required("environment", String(4)),
    _required("finished_at", BigInteger),
    _required("result", Text),  # JSON
    PrimaryKeyConstraint("environment"),
)
"""The result of the last comparison of all payments with the chain."""

executions: Final = Table(
    "executions",
    metadata,
    _account(),
    _required("id", ID),
    _required("revision", ID),
    _required("created_at", BigInteger),
    Column("metadata", Text),
    PrimaryKeyConstraint("account", "id"),
)
"""Free executions."""

simulated_balances: Final = Table(
    "simulated_balances",
    metadata,
    _account(),
    _required("asset", ADDRESS),
    _required("address", ADDRESS),
    _required("balance", Amount),
    PrimaryKeyConstraint("account", "asset", "address"),
)
"""Balances on the simulated ledger that are not the default. The default has the address `default`."""

simulated_transfers: Final = Table(
    "simulated_transfers",
    metadata,
    _account(),
    _required("asset", ADDRESS),
    _required("payer", ADDRESS),  # lower case
    _required("nonce", NONCE),
    _required("transaction_hash", HASH),
    PrimaryKeyConstraint("account", "asset", "payer", "nonce"),
)
"""The authorizations that were used on the simulated ledger."""

simulated_rules: Final = Table(
    "simulated_rules",
    metadata,
    _account(),
    _required("target", String(42)),
    _required("rule", Text),
    PrimaryKeyConstraint("account", "target"),
)
"""How payments settle on the simulated ledger: by payer (lower case), or the `default`."""
