"""The endpoints: path, method, required capability, handler (spec: Endpoints)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from faregate.core.models import Response
from faregate.merchant.problems import METHOD_NOT_ALLOWED, NO_SUCH_ENDPOINT
from faregate.merchant.requests import ROOT
from faregate.rules.account import Capability
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import HttpError, ParsedRequest
from faregate.rules.operations.access import access
from faregate.rules.operations.complete import complete, complete_execution
from faregate.rules.operations.reads import (
    get_transaction,
    list_contracts,
    list_payers,
    list_resources,
    list_transactions,
)

Operation = Literal[
    "access",
    "complete",
    "transaction",
    "transactions",
    "payers",
    "resources",
    "contracts",
    "execution",
]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint. The path's id stands between `before` and `after`; without an id `before` is the whole
    path.
    """

    operation: Operation
    method: str
    before: str
    after: str | None
    capability: Capability
    handle: Callable[[ParsedRequest, Dependencies], Response]

    def identifier(self, path: str) -> str | None:
        """Return the id in this path, empty if the route has none; None if the path does not match."""
        if self.after is None:
            return "" if path == self.before else None
        if not path.startswith(self.before) or not path.endswith(self.after):
            return None
        identifier = path[len(self.before) : len(path) - len(self.after)]
        return identifier if identifier and "/" not in identifier else None


ROUTES: Final = (
    Route("access", "POST", f"{ROOT}/access", None, "access", access),
    Route("complete", "POST", f"{ROOT}/transactions/", "/complete", "transactions:complete", complete),
    Route("transaction", "GET", f"{ROOT}/transactions/", "", "transactions:read", get_transaction),
    Route("transactions", "GET", f"{ROOT}/transactions", None, "transactions:read", list_transactions),
    Route("payers", "GET", f"{ROOT}/payers", None, "payers:read", list_payers),
    Route("resources", "GET", f"{ROOT}/resources", None, "resources:read", list_resources),
    Route("contracts", "GET", f"{ROOT}/contracts", None, "contracts:read", list_contracts),
    Route(
        "execution",
        "POST",
        f"{ROOT}/resource-executions/",
        "/complete",
        "executions:complete",
        complete_execution,
    ),
)

_WHOLE: Final = {(route.method, route.before): route for route in ROUTES if route.after is None}
_WITH_ID: Final = tuple(route for route in ROUTES if route.after is not None)


def find_route(method: str, path: str) -> tuple[Route, str]:
    """Find the endpoint and the id in the path; 404 for an unknown path, 405 for another method."""
    whole = _WHOLE.get((method, path))
    if whole is not None:
        return whole, ""
    for route in _WITH_ID:
        if route.method == method and (identifier := route.identifier(path)) is not None:
            return route, identifier
    methods = {route.method for route in ROUTES if route.identifier(path) is not None}
    if not methods:
        raise HttpError(NO_SUCH_ENDPOINT, "there is no such endpoint")
    allowed = ", ".join(sorted(methods))
    raise HttpError(METHOD_NOT_ALLOWED, f"this endpoint takes {allowed}", (("Allow", allowed),))
