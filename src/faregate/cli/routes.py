"""`faregate routes` and `faregate check`: list what an application sells, and check that it can be sold."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from faregate.errors import ConfigurationError
from faregate.operations.app_loader import WrongCall, load
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.routes.check import check, describe_instructions
from faregate.routes.table import as_json, as_table
from faregate.routes.wrappers import behind, front_of, layers, opaque


@dataclass(frozen=True, slots=True)
class LoadedApp:
    """What an application sells; the paywall of those routes that know of none of their own."""

    inventory: RouteTable
    paywall: Paywall | None = None


def add_routes(command: ArgumentParser) -> None:
    command.description = (
        "Lists every route of an application as paid, free or refused. "
        "Ends with 1 if something is declared that no request can reach."
    )
    _add_app(command)


def add_check(command: ArgumentParser) -> None:
    command.description = (
        "Asks the merchant service whether everything that is for sale can be sold. Ends with 1 if not."
    )
    _add_app(command)


def _add_app(command: ArgumentParser) -> None:
    add = command.add_argument
    add("app", metavar="MODULE:APP", help="the application, as servers name it: shop:app")
    add("--app-dir", default="", metavar="DIR", help="look for the module here, not in this directory")
    add("--factory", action="store_true", help="APP is a function that makes the application")
    add("--json", action="store_true", help="print JSON instead of text")


def run_routes(arguments: Namespace) -> int:
    """Prints every route as paid, free or refused; 1 if something is declared that no request can reach."""
    inventory = _stock(arguments).inventory
    print(as_json(inventory) if arguments.json else as_table(inventory))
    return 1 if inventory.complaints else 0


def run_check(arguments: Namespace) -> int:
    """Asks the service about everything that is for sale; 1 if something of it cannot be sold.

    Says too whether the service's payment instructions can be guessed; that is not an error here.
    """
    stock = _stock(arguments)
    offers = stock.inventory.offers
    notes: list[str] = []
    if offers:
        faults = check(stock.paywall, stock.inventory)
        notes = describe_instructions(stock.paywall, stock.inventory)
    else:
        faults = [*stock.inventory.complaints, "Nothing is for sale in this application."]
    if arguments.json:
        sells = [offer.sells for offer in offers]
        print(json.dumps({"sells": sells, "faults": faults, "notes": notes}, indent=2))
    else:
        well = f"All is well: {len(offers)} {'offer' if len(offers) == 1 else 'offers'} can be sold."
        print("\n".join((*(faults or [well]), *notes)))
    return 1 if faults else 0


def _stock(arguments: Namespace) -> LoadedApp:
    return stock_of(load(arguments.app, arguments.app_dir, factory=arguments.factory))


def stock_of(app: Any) -> LoadedApp:
    """Whatever an application is, and however many layers of middleware are around it.

    Raises `WrongCall` for what is none, and `ConfigurationError`.
    """
    if not callable(app):
        raise WrongCall(f"This is no application but of type {type(app).__name__}.")
    *around, core = layers(app)
    if _is(core, "starlette.applications", "Starlette") or _is(core, "starlette.routing", "Router"):
        return LoadedApp(_of_starlette(app))  # it looks through the layers itself
    fronts = [front for layer in around if (front := front_of(layer)) is not None]
    if _is(core, "flask", "Flask"):
        stock = _of_flask(core, behind_another=bool(fronts))
    elif _is(core, "django.core.handlers.base", "BaseHandler"):
        stock = _of_django()
    else:
        stock = LoadedApp(opaque(core))
    return LoadedApp(behind(fronts, stock.inventory), stock.paywall)


def _is(app: Any, module: str, name: str) -> bool:
    """Without importing a framework that the application has not imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(app, kind)


def _of_starlette(app: Any) -> RouteTable:
    if "fastapi" in sys.modules:
        from faregate.fastapi import inventory_of
    else:
        from faregate.starlette import inventory_of
    return inventory_of(app)


def _of_flask(app: Any, *, behind_another: bool) -> LoadedApp:
    from faregate.flask.routes import get_middleware, inventory_of

    try:
        return LoadedApp(inventory_of(app), get_middleware(app).paywall)
    except ConfigurationError:
        if not behind_another:
            raise
        return LoadedApp(opaque(app))  # it is sold by its prefixes alone, and its views sell nothing


def _of_django() -> LoadedApp:
    from faregate.django.routes import inventory_of

    return LoadedApp(inventory_of())
