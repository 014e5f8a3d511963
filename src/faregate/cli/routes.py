"""`faregate routes` and `faregate check`: list what an application sells, and check that it can be sold."""

import json
from argparse import ArgumentParser, Namespace

from faregate.cli.app_loader import load
from faregate.routes import RouteTable
from faregate.routes.check import check, describe_instructions
from faregate.routes.inspect import inspect_app
from faregate.routes.table import as_json, as_table


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
    table = _load_table(arguments)
    print(as_json(table) if arguments.json else as_table(table))
    return 1 if table.problems else 0


def run_check(arguments: Namespace) -> int:
    """Asks the service about everything that is for sale; 1 if something of it cannot be sold.

    Says too whether the service's payment instructions can be guessed; that is not an error here.
    """
    table = _load_table(arguments)
    offers = table.offers
    notes: list[str] = []
    if offers:
        faults = check(table)
        notes = describe_instructions(table)
    else:
        faults = [*table.problems, "Nothing is for sale in this application."]
    if arguments.json:
        sells = [offer.sells for offer in offers]
        print(json.dumps({"sells": sells, "faults": faults, "notes": notes}, indent=2))
    else:
        well = f"All is well: {len(offers)} {'offer' if len(offers) == 1 else 'offers'} can be sold."
        print("\n".join((*(faults or [well]), *notes)))
    return 1 if faults else 0


def _load_table(arguments: Namespace) -> RouteTable:
    return inspect_app(load(arguments.app, arguments.app_dir, factory=arguments.factory))
