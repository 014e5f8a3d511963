"""The Merchant API as one function: `respond(request) -> response`. No I/O, clock or randomness of its own.

Checks come in this order: the endpoint (404, 405), the key (401), its capability (403), then the operation's
own rules. A bug is answered 500 `internal_error` and logged.
"""

import logging

from faregate.core.models import Response, WireRequest
from faregate.merchant.problems import INTERNAL_ERROR
from faregate.service.catalog import build_catalog
from faregate.service.clock import Clock, MonotonicClock
from faregate.service.config import DEFAULT_CREATED_AT, Account
from faregate.service.http import HttpError, ParsedRequest, authenticate, require_capability
from faregate.service.identifiers import Challenges, Ids, derive_id
from faregate.service.payments import Facilitator
from faregate.service.published_payers import map_settlement_rules
from faregate.service.routes import find_route
from faregate.service.settlement import settle_due
from faregate.service.state import EnvironmentState
from faregate.x402.tokens import Environment

_log = logging.getLogger("faregate.emulator")


class Service:
    """The test and the live environment of one account. Not thread-safe: the caller holds a lock."""

    def __init__(
        self,
        account: Account,
        *,
        clock: Clock,
        ids: Ids,
        challenge: Challenges,
        payments: Facilitator,
        expose_execution_id: bool,
        allow_live: bool,
    ) -> None:
        self.keys = {key.key: key for key in account.keys}
        self.allow_live = allow_live
        monotonic = MonotonicClock(clock)
        environments: tuple[Environment, ...] = ("test", "live")
        self.environments: dict[Environment, EnvironmentState] = {
            name: EnvironmentState(
                environment=name,
                seller=account.seller,
                seller_id=derive_id("org", DEFAULT_CREATED_AT, account.seller.name),
                catalog=build_catalog(account, name),
                clock=monotonic,
                ids=ids,
                challenge=challenge,
                payments=payments,
                expose_execution_id=expose_execution_id,
                settlement=account.settlement,
                payer_settlements=map_settlement_rules(account, name),
            )
            for name in environments
        }

    def respond(self, request: WireRequest) -> Response:
        """Return the response to this request. Never raises."""
        path, _, query = request.path.partition("?")
        try:
            return self._answer(request, path, query)
        except HttpError as refusal:
            return refusal.response()
        except Exception:
            _log.exception("%s %s failed", request.method, path)
            return HttpError(INTERNAL_ERROR, "the emulator failed; its log says why").response()

    def _answer(self, request: WireRequest, path: str, query: str) -> Response:
        route, identifier = find_route(request.method, path)
        key = authenticate(request.headers, self.keys, self.allow_live)
        require_capability(key, route.capability)
        store = self.environments[key.environment]
        # Before the operation, so that it and every list see what time has settled by now.
        settle_due(store, store.clock.now())
        return route.handle(store, ParsedRequest(identifier, query, request.headers, request.body or b""))
