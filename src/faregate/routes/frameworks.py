"""List what an application sells, whichever framework it is made with."""

import sys
from importlib import import_module
from typing import Any

from faregate.errors import ConfigurationError
from faregate.routes import RouteTable
from faregate.routes.wrappers import (
    apply_paywalls,
    build_unlisted_app,
    list_chains,
    list_paywalls,
    unwrap,
)


def inspect_app(app: Any) -> RouteTable:
    """The routes of an application of FastAPI, Starlette, Flask, Django, MCP or none, as payers find them.

    Looks through any number of middleware layers around it. Raises `ConfigurationError`.
    """
    if is_mcp_server(app):
        return _list_routes("faregate.mcp", app)
    if any(_is_starlette(layers[-1]) for layers in list_chains(app)):
        # FastAPI's lists routes of Starlette as well.
        adapter = "faregate.fastapi" if "fastapi" in sys.modules else "faregate.starlette"
        return _list_routes(adapter, app)  # it looks through the layers itself
    *around, core = unwrap(app)
    paywalls = list_paywalls(around)
    if _is_instance(core, "flask", "Flask"):
        table = _list_flask(core, has_paywall_around=bool(paywalls))
    elif _is_instance(core, "django.core.handlers.base", "BaseHandler"):
        table = _list_routes("faregate.django.routes")
    else:
        table = build_unlisted_app(core)
    return apply_paywalls(paywalls, table)


def _is_starlette(core: Any) -> bool:
    kinds = (("starlette.applications", "Starlette"), ("starlette.routing", "Router"))
    return any(_is_instance(core, module, name) for module, name in kinds)


def is_mcp_server(app: Any) -> bool:
    """Whether it is a server of tools; unlike an application it cannot be called."""
    return _is_instance(app, "mcp.server", "MCPServer") or _is_instance(app, "mcp.server", "Server")


def _is_instance(app: Any, module: str, name: str) -> bool:
    # Looks only into modules that the application has imported: other frameworks need not be installed.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(app, kind)


def _list_routes(adapter: str, *app: Any) -> RouteTable:
    # By name: adapters import this package, and need others that may not be installed.
    table: RouteTable = import_module(adapter).list_routes(*app)
    return table


def _list_flask(app: Any, *, has_paywall_around: bool) -> RouteTable:
    try:
        return _list_routes("faregate.flask.routes", app)
    except ConfigurationError:
        if not has_paywall_around:
            raise
        # It has no paywall of its own: only the prefixes of the one around it are sold.
        return build_unlisted_app(app)
