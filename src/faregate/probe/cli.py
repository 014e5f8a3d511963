"""`faregate probe`: its arguments, the announcement of its cost, and its report."""

import json
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from faregate.cli.terminal import format_table
from faregate.commands import Command, Option
from faregate.errors import CommandError, FaregateError
from faregate.pay.cli import PAYER_OPTIONS, parse_seconds, suggest_extra
from faregate.x402.tokens import format_price

if TYPE_CHECKING:
    from faregate.probe.check import CheckResult
    from faregate.probe.discovery import Product
    from faregate.probe.session import ProbeSession

DESCRIPTION = """Run the same checks against any merchant service, the emulator or the real one in test mode,
and report whether it decides as faregate expects where the specification is silent. The API key is read
from FAREGATE_API_KEY. Exit codes: 0 no check failed, 1 at least one failed, 2 the probe could not run."""


PROBE: Final = Command(
    "probe",
    "test how a merchant service decides",
    "faregate.probe.cli:run_probe",
    DESCRIPTION,
    (
        Option("--base-url", "the service; default FAREGATE_BASE_URL", str, metavar="URL"),
        Option(
            "--resource",
            "buy the resource with this integration key",
            str,
            metavar="KEY",
            group="product",
        ),
        Option("--revision", "buy this revision; default the cheapest", str, metavar="ACR", group="product"),
        Option("--free-resource", "a free resource; default the first one found", str, metavar="KEY"),
        Option("--slow-resource", "a resource whose payments settle late", str, metavar="KEY"),
        Option("--foreign-revision", "a revision of the other environment", str, metavar="ACR"),
        *PAYER_OPTIONS,
        Option("--timeout", "how long to wait for each response; default 10", parse_seconds, "10", "SECONDS"),
        Option("--allow-live", "accept a live key, which spends real money"),
        Option("--json", "print JSON instead of a table"),
    ),
)


def run_probe(arguments: Namespace) -> int:
    """Run the probe and return its exit code. Raises `CommandError` if it could not run."""
    try:
        return _run(arguments)
    # The status of these errors is 1 elsewhere, which says here that a check failed.
    except (FaregateError, ImportError) as error:
        raise CommandError(str(error)) from None


def _run(arguments: Namespace) -> int:
    with suggest_extra():
        from faregate.probe.checks import run_checks
        from faregate.probe.config import open_session
        from faregate.probe.fixtures import ProbeRun

    with open_session(arguments, os.environ) as session:
        print(format_cost(session), file=sys.stderr, flush=True)
        results = list(run_checks(ProbeRun(session)))
    print(format_json(session.client.base_url, results) if arguments.json else format_text(results))
    return 1 if any(result.verdict == "fail" for result in results) else 0


def format_cost(session: "ProbeSession") -> str:
    """Announce what the probe spends: as expected, and if the service accepts what it should refuse."""
    expected, worst = session.expected_purchases, session.worst_case_purchases
    if not expected:
        return "Found no product that this payer can buy, so nothing is spent."
    payments = "1 payment" if len(expected) == 1 else f"{len(expected)} payments"
    return (
        f"Buying {expected[0].revision.resource_name!r} with {session.wallet.address} "
        f"({session.client.environment}).\nExpected cost: {payments} ({_format_total(expected)}); at most "
        f"{len(worst)} ({_format_total(worst)}).\nEvery other transaction is reported as failed."
    )


def _format_total(products: Sequence["Product"]) -> str:
    """Format as `0.03 USDC + 0.01 EURC`."""
    totals = Counter[str]()
    for product in products:
        totals[product.revision.settlement_asset] += product.atomic
    return " + ".join(format_price(atomic, asset) for asset, atomic in totals.items())


def format_text(results: Sequence["CheckResult"]) -> str:
    """Format one line per check (verdict, source, id, expected, observed) and a summary."""
    table = format_table(
        [(result.verdict, result.source, result.id, result.expected, result.observed) for result in results]
    )
    counts = Counter(result.verdict for result in results)
    summary = f"{counts['pass']} passed, {counts['fail']} failed, {counts['skipped']} skipped"
    return "\n".join([table, "", summary])


def format_json(base_url: str, results: Sequence["CheckResult"]) -> str:
    counts = Counter(result.verdict for result in results)
    report = {"base_url": base_url, "counts": dict(counts), "checks": [asdict(result) for result in results]}
    return json.dumps(report, indent=2)
