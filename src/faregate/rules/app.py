"""The Merchant API as one function, `respond(request, accounts)`, and the service in memory.

Checks come in this order: the endpoint (404, 405), the key (401), its capability (403), then the operation's
own rules. A bug is answered 500 `internal_error` and logged.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from faregate.core.models import Response, WireRequest
from faregate.merchant.problems import INTERNAL_ERROR, UNAVAILABLE
from faregate.rules.account import DEFAULT_CREATED_AT, Account, Capability, Key
from faregate.rules.catalog import build_catalog
from faregate.rules.clock import Clock, MonotonicClock
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import (
    INVALID_KEY,
    RETRY_SOON,
    HttpError,
    ParsedRequest,
    build_401,
    read_bearer,
    require_capability,
)
from faregate.rules.ids import Challenges, Ids, derive_id
from faregate.rules.memory_store import MemoryStore
from faregate.rules.payments import Ledger
from faregate.rules.published_payers import map_settlement_rules
from faregate.rules.routes import find_route
from faregate.rules.settlement import settle_due
from faregate.rules.store import StoreUnavailable
from faregate.x402.tokens import ENVIRONMENTS, Environment

_log = logging.getLogger("faregate.service")


class Accounts(Protocol):
    """Finds the account that a key belongs to."""

    def authenticate(self, secret: str) -> "KeyGrant":
        """Return what this API key gives access to; `HttpError` 401 if it is not valid."""
        ...


@dataclass(frozen=True, slots=True)
class KeyGrant:
    """What a key gives access to."""

    capabilities: Collection[Capability]
    deps: Dependencies


def respond(request: WireRequest, accounts: Accounts) -> Response:
    """Return the response to this request. Never raises."""
    path, _, query = request.path.partition("?")
    try:
        route, identifier = find_route(request.method, path)
        grant = accounts.authenticate(read_bearer(request.headers))
        require_capability(grant.capabilities, route.capability)
        # Before the operation, so that it and every list see what time has settled by now.
        settle_due(grant.deps.store.now(), grant.deps)
        call = ParsedRequest(identifier, query, request.headers, request.body or b"")
        return route.handle(call, grant.deps)
    except HttpError as refusal:
        return refusal.response()
    except StoreUnavailable as error:
        # Not a 500, so that the caller tries again; and never a 402, so that no payer pays twice.
        _log.error("%s", error)
        return HttpError(UNAVAILABLE, "the service's database is away", (RETRY_SOON,)).response()
    except Exception:
        _log.exception("%s %s failed", request.method, path)
        return HttpError(INTERNAL_ERROR, "the service failed; its log says why").response()


class Service:
    """The test and the live environment of one account, in memory.

    Not thread-safe: the caller holds a lock.
    """

    def __init__(
        self,
        account: Account,
        *,
        clock: Clock,
        ids: Ids,
        challenge: Challenges,
        ledger: Ledger,
        expose_execution_id: bool,
        allow_live: bool,
    ) -> None:
        self.keys = {key.key: key for key in account.keys}
        self.allow_live = allow_live
        monotonic = MonotonicClock(clock)
        self.environments: dict[Environment, MemoryStore] = {
            name: MemoryStore(
                environment=name,
                seller=account.seller,
                seller_id=derive_id("org", DEFAULT_CREATED_AT, account.seller.name),
                catalog=build_catalog(account, name),
                clock=monotonic,
                ids=ids,
                challenge=challenge,
                ledger=ledger,
                expose_execution_id=expose_execution_id,
                settlement=account.settlement,
                payer_settlements=map_settlement_rules(account, name),
            )
            for name in ENVIRONMENTS
        }

    def respond(self, request: WireRequest) -> Response:
        """Return the response to this request. Never raises."""
        return respond(request, self)

    def authenticate(self, secret: str) -> KeyGrant:
        key = self.find_key(secret)
        return KeyGrant(key.capabilities, self.environments[key.environment].deps)

    def find_key(self, secret: str) -> Key:
        """Return the key; `HttpError` 401 if it is not valid here."""
        key = self.keys.get(secret)
        if key is None:
            raise build_401(INVALID_KEY)
        if key.environment == "live" and not self.allow_live:
            raise build_401("live keys are not allowed here")
        return key
