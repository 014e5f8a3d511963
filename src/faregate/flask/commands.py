"""`flask faregate`: what the app sells, and whether it can."""

import click
from flask import current_app
from flask.cli import AppGroup

from faregate.flask.routes import door_of, inventory_of
from faregate.inventory import as_json, as_table, check
from faregate.sweeping import swept

commands = AppGroup("faregate", help="What this app sells.")


@commands.command("routes")
@click.option("--json", "for_machines", is_flag=True, help="For machines.")
def routes(for_machines: bool) -> None:
    """List every route as paid, free or refused.

    Fails if something is declared that no request can reach.
    """
    inventory = inventory_of(current_app)
    click.echo(as_json(inventory) if for_machines else as_table(inventory))
    if inventory.complaints:
        raise SystemExit(1)


@commands.command("check")
def check_all() -> None:
    """Ask whether everything can be sold: the settings, the journal, each key at the service."""
    door, inventory = door_of(current_app), inventory_of(current_app)
    faults = check(door.paywall, inventory)
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        raise SystemExit(1)
    offers = len(inventory.offers)
    click.echo(
        f"All is well: {offers} {'offer' if offers == 1 else 'offers'} at {door.paywall.settings.base_url}"
    )


@commands.command("sweep")
def sweep() -> None:
    """Finish what payers left open; for a timer, with a journal that the workers share."""
    click.echo(swept(door_of(current_app).paywall))
