"""`journal`: print the keys and addresses of a journal, and move its rows."""

import json as jsonlib

from faregate.cli.terminal import count, format_moment, format_table, prints_json
from faregate.commands import Echo
from faregate.journals.store import KeyUsage
from faregate.maintenance.journal import get_administrable_journal, move_rows
from faregate.paywall import Paywall

_HEAD = ("KEY", "CONFIGURED", "ROWS", "UNFINISHED", "LAST EXPIRES", "")


def run_keys(paywall: Paywall, echo: Echo, *, json: bool, text: bool) -> int:
    """Print what each key is still needed for."""
    as_json = prints_json(json, text)
    usage = get_administrable_journal(paywall).usage_of_keys()
    if as_json:
        keys = [
            {
                "key_id": key.key_id,
                "configured": is_configured,
                "rows": key.rows,
                "unfinished": key.owed,
                "last_expiry": key.last_expiry,
            }
            for key, is_configured in usage
        ]
        echo(jsonlib.dumps({"keys": keys}, indent=2))
    elif usage:
        echo(format_table([_build_row(key, is_configured) for key, is_configured in usage], _HEAD))
    else:
        echo("The journal has no rows.")
    return 0


def _build_row(key: KeyUsage, is_configured: bool) -> tuple[str, ...]:
    last = "-" if key.last_expiry is None else format_moment(key.last_expiry)
    advice = "needed until all rows are finished" if key.owed else f"no longer needed after {last}"
    return key.key_id, "yes" if is_configured else "NO", str(key.rows), str(key.owed), last, advice


def run_addresses(paywall: Paywall, echo: Echo, *, json: bool, text: bool) -> int:
    """Print how many rows are unfinished, by environment and address of the service."""
    as_json = prints_json(json, text)
    namespaces = get_administrable_journal(paywall).namespaces()
    if as_json:
        echo(jsonlib.dumps({"unfinished": namespaces}, indent=2))
    elif namespaces:
        rows = [(str(number), name) for name, number in sorted(namespaces.items())]
        echo(format_table(rows, ("UNFINISHED", "ADDRESS")))
    else:
        echo("No unfinished payments.")
    return 0


def run_move(paywall: Paywall, echo: Echo, *, address: str) -> int:
    """Move the rows of a former address to the current one."""
    echo(f"Moved {count(move_rows(paywall, address), 'row')} to {paywall.settings.namespace}.")
    return 0
