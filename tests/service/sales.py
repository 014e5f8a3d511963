"""A store with a catalog, and sales on it without signatures: the store verifies none."""

import secrets
from collections.abc import Callable
from typing import Any

from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    SucceededCompleteRequest,
)
from faregate.rules.builtin_account import builtin_account
from faregate.rules.catalog import Listing
from faregate.rules.payments import PaymentVerified
from faregate.rules.records import AccessContext, Transaction
from faregate.service.database.accounts import list_accounts
from faregate.service.database.apply import apply_account
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared, StoreOptions, get_no_owner
from faregate.system import random_challenge, random_id, system_clock
from faregate.x402.models import SignedPayment

Clock = Callable[[], Any]
PAYER = "0x93771F6e7A3bA4b22A9dE19dEe42E16faf86eF48"
HASH = "0x" + "ab" * 32


def open_store(
    database: Database,
    clock: Clock = system_clock,
    *,
    get_owner: Callable[[], str | None] = get_no_owner,
    **options: Any,
) -> SqlStore:
    """The test environment of an account with the emulator's catalog."""
    stamps = Stamps(database, clock)
    apply_account(database, stamps, builtin_account(), environments=("test",))
    with database.read() as connection:
        account = list_accounts(connection)[0]
    shared = Shared(database, stamps, random_id, random_challenge, StoreOptions(**options), get_owner)
    return SqlStore(shared, account)


def resolve(store: SqlStore, key: str = "daily_report", path: str = "report") -> AccessContext:
    [listing] = [one for one in store.list_active() if one.resource.key == key]
    return resolve_listing(store, listing, path)


def resolve_listing(store: SqlStore, listing: Listing, path: str = "report") -> AccessContext:
    resource = AccessResource(url=f"https://seller.example/{path}", mime_type="text/plain", description="")
    revision = listing.active
    request = AccessRequest(
        revision_id=revision.id, resource=resource, settlement_asset=revision.token.symbol
    )
    return store.resolve(request, listing, revision)


def sign(
    context: AccessContext, payer: str = PAYER, header: str | None = None, **changes: Any
) -> SignedPayment:
    """A payment with a fresh nonce; its signature is none."""
    fields: dict[str, Any] = {
        "payer": payer.lower(),
        "to": context.terms.pay_to.lower(),
        "value": context.terms.amount,
        "valid_after": 0,
        "valid_before": 4_000_000_000,
        "nonce": f"0x{secrets.token_hex(32)}",
        "signature": f"0x{secrets.token_hex(65)}",
        **changes,
    }
    return SignedPayment(**fields, header=secrets.token_hex(40) if header is None else header)


def authorize(store: SqlStore, payer: str = PAYER, key: str = "daily_report", **changes: Any) -> Transaction:
    context = resolve(store, key)
    made = store.authorize(context, sign(context, payer, **changes), PaymentVerified(payer, 100))
    assert made is not None
    return made


def get_reserved(store: SqlStore, payer: str = PAYER) -> int:
    """What open transactions of this payer reserve."""
    context = resolve(store)
    return store.find_uses(context.terms.token, sign(context, payer)).reserved


def submit(store: SqlStore, payer: str = PAYER) -> Transaction:
    """A transaction that its seller has completed."""
    made = authorize(store, payer)
    recorded = store.record_outcome(made, succeeded(made))
    assert recorded is not None
    return recorded


def settle(store: SqlStore, payer: str = PAYER) -> Transaction:
    made = submit(store, payer)
    assert store.begin_attempt(made) is not None
    return store.record_settled(made, f"0x{secrets.token_hex(32)}", None)


def succeeded(made: Transaction) -> SucceededCompleteRequest:
    return SucceededCompleteRequest(revision_id=made.context.revision.id, outcome="succeeded", values={})


def failed(made: Transaction) -> FailedCompleteRequest:
    return FailedCompleteRequest(
        revision_id=made.context.revision.id, outcome="failed", failure_code="broken"
    )
