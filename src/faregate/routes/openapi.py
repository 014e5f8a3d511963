"""Write the OpenAPI document of what an application sells, with its prices, for agents and catalogues."""

from collections.abc import Iterable, Iterator
from typing import Any

from faregate.checkout.openapi import INFO, payment_info, with_payments
from faregate.checkout.openapi_operations import (
    Operation,
    PathTemplate,
    build_content,
    merge_operation,
    read_path_template,
)
from faregate.core.models import DEFAULT_MIME_TYPE, Offer
from faregate.core.terms import Price
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from faregate.routes import RouteInfo
from faregate.routes.frameworks import inspect_app, is_mcp_server
from faregate.routes.llms import HOW_TO_PAY, check_seller, join_lines, list_documented
from faregate.routes.wrappers import unwrap

_UNLISTED = frozenset(("HEAD", "OPTIONS"))


def build_openapi(app: object, name: str, about: str = "") -> dict[str, Any]:
    """Build the document to serve at `/openapi.json`: what this application sells, and its prices.

    `name` is the seller's, `about` one sentence. Blocking: it asks the service for the price of each offer,
    once in five minutes. FastAPI serves a document of its own. Raises `ConfigurationError`.
    """
    check_seller("build_openapi", app, name, about)
    if is_mcp_server(app):
        raise ConfigurationError(
            "build_openapi needs an application of HTTP: the tools of an MCP server tell their prices in "
            "tools/list, and build_llms_text lists them."
        )
    if callable(getattr(unwrap(app)[-1], "openapi", None)):
        raise ConfigurationError(
            "FastAPI serves an OpenAPI document already: set FAREGATE_DISCOVERY=1, and it has the prices."
        )
    routes = list_documented(inspect_app(app).routes)
    paywalls = {offer: route.paywall() for route, offer in routes if route.paywall is not None}
    prices = {
        alternative.sells: _ask(alternative, paywall)
        for offer, paywall in paywalls.items()
        for alternative in offer.alternatives
    }
    info = {"title": join_lines(name), "version": "1", "x-guidance": HOW_TO_PAY}
    if about:
        info["description"] = join_lines(about)
    document: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": _build_paths(routes)}
    if urls := [url for paywall in paywalls.values() if (url := paywall.settings.public_url)]:
        document["servers"] = [{"url": urls[0]}]
    return with_payments(
        document,
        asset=lambda sells: prices.get(sells, _UNKNOWN)[0],
        price=lambda sells: prices.get(sells, _UNKNOWN)[1],
    )


_UNKNOWN = None, None


def _ask(offer: Offer, paywall: Paywall) -> tuple[str | None, Price | None]:
    paywall.refresh_price(offer)
    return paywall.find_asset(offer.sells), paywall.find_price(offer.sells)


def _build_paths(routes: Iterable[tuple[RouteInfo, Offer]]) -> dict[str, Operation]:
    """Build the operations by path and method. A pattern that is not a template is left out."""
    paths = dict[str, Operation]()
    for route, offer in routes:
        if (template := read_path_template(route.path)) is None:
            continue
        operation = _build_operation(template, offer)
        for method in _list_methods(route, operation):
            paths.setdefault(template.path, {}).setdefault(method, operation | {})
    return paths


def _list_methods(route: RouteInfo, operation: Operation) -> Iterator[str]:
    """List the methods to document; of a route that takes any, the one that fits what is known of it."""
    if not route.methods:
        yield "post" if "requestBody" in operation else "get"
    yield from (method.lower() for method in route.methods if method not in _UNLISTED)


def _build_operation(template: PathTemplate, offer: Offer) -> Operation:
    # The alternatives of a choice are the results of one handler.
    first = offer.alternatives[0]
    declared = {
        name: value for alternative in offer.alternatives for name, value in alternative.operation.items()
    }
    responses = {
        status: {"description": "The result.", **response}
        for status, response in declared.get("responses", {}).items()
    }
    if not any(status.startswith("2") for status in responses):
        content = build_content({}, first.mime_type or DEFAULT_MIME_TYPE)
        responses = {"200": {"description": "The result.", **content}, **responses}
    described: Operation = {"summary": join_lines(first.description or offer.sells)}
    if template.parameters:
        described["parameters"] = template.parameters
    return {
        **merge_operation(described, {**declared, "responses": responses}),
        INFO: payment_info(offer),
    }
