"""What an MCP server sells is listed; a prefix that sells its HTTP endpoint is a fault."""

from typing import Any

import pytest
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.routing import Mount

from faregate.asgi import PaywallMiddleware
from faregate.mcp import add_paywall, paid
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.routes.check import check
from faregate.routes.frameworks import inspect_app
from tests.adapters.asgi import a_paywall


@pytest.fixture
def paywall() -> Paywall:
    return a_paywall()


def shop(paywall: Paywall | None) -> MCPServer[Any]:
    server = MCPServer("shop")
    if paywall is not None:
        add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(forecast))
    server.add_tool(list_cities)
    return server


def forecast(city: str) -> str:
    return city


def list_cities() -> list[str]:
    return []


def listed(table: RouteTable) -> list[tuple[str, str, str]]:
    return [(route.access, route.path, route.sells) for route in table.routes]


def test_the_tools_of_a_server_are_listed_and_checked(paywall: Paywall) -> None:
    table = inspect_app(shop(paywall))
    assert listed(table) == [
        ("paid", "/mcp/tools/forecast", "daily_report"),
        ("free", "/mcp/tools/list_cities", ""),
    ]
    assert check(table) == []


def test_the_tools_behind_an_endpoint_are_listed_below_it(paywall: Paywall) -> None:
    app = Starlette(routes=[Mount("/shop", shop(paywall).streamable_http_app())])
    table = inspect_app(app)
    assert listed(table)[1:] == [
        ("paid", "/shop/mcp/tools/forecast", "daily_report"),
        ("free", "/shop/mcp/tools/list_cities", ""),
    ]
    assert (listed(table)[0][:2], table.problems) == (("free", "/shop/mcp"), ())


def test_an_endpoint_that_a_prefix_sells_is_a_fault(paywall: Paywall) -> None:
    app = PaywallMiddleware(MCPServer("shop").streamable_http_app(), paywall, offers={"/mcp": "daily_report"})
    [fault] = inspect_app(app).problems
    assert "a tool that fails" in fault
    assert check(inspect_app(app)) == [fault]


def test_a_server_without_a_paywall_is_a_fault() -> None:
    [fault] = inspect_app(shop(None)).problems
    assert "call add_paywall(server)" in fault


def test_a_tool_that_runs_without_its_price_is_a_mistake(paywall: Paywall) -> None:
    server = shop(paywall)
    server.add_tool(forecast, name="given_away")
    [mistake] = inspect_app(server).mistakes
    assert "'given_away'" in mistake
