"""The table of all commands. Importing it imports none of them."""

from typing import Final

from faregate.cli.command import Command, Option, parse_count, parse_seconds
from faregate.core.recovery import BATCH

_JSON: Final = Option("--json", "print JSON instead of text")
_ID: Final = Option("id", "a transaction, such as txn_...", metavar="ID")

ROUTES: Final = Command(
    "routes",
    "list the application's routes as paid, free or refused",
    "faregate.cli.routes:run_routes",
    "List every route of the application as paid, free or refused. Exits with 1 if a path is declared that "
    "no request can reach, or if something is given away.",
    (_JSON,),
    target="routes",
)
CHECK: Final = Command(
    "check",
    "check that everything for sale can be sold",
    "faregate.cli.routes:run_check",
    "Check the routes, the journal, the API key, and every offer at the merchant service. Exits with 1 if "
    "something cannot be sold.",
    (_JSON,),
    target="routes",
)
SWEEP: Final = Command(
    "sweep",
    "finish interrupted and held payments",
    "faregate.cli.sweep:run_sweep",
    "Finish payments that were interrupted or are held, and whose payers have not come back. After SIGTERM "
    "or Ctrl-C it stops before the next payment.",
    (
        Option("--watch", "keep sweeping until interrupted or sent a SIGTERM"),
        Option(
            "--every",
            "with --watch: from one sweep to the next, a quarter more or less; default 30",
            parse_seconds,
            "30",
            "SECONDS",
        ),
        Option(
            "--limit",
            f"look at no more payments than this in one sweep; default {BATCH}",
            parse_count,
            str(BATCH),
            "N",
        ),
        Option("--json", "print one line of JSON for each sweep"),
    ),
    target="paywall",
)
HOLDS: Final = Command(
    "holds",
    "list, retry or discard unfinished payments",
    description="List unfinished payments, and resolve those that only a person can resolve.",
    actions=(
        Command(
            "list",
            "list stuck and held payments",
            "faregate.cli.holds:run_list",
            "List unfinished payments, stuck ones first.",
            (
                Option("--all", "also list payments that are being served now"),
                Option("--stuck", "list only stuck payments, which only a person can end"),
                _JSON,
            ),
        ),
        Command(
            "show",
            "show one payment",
            "faregate.cli.holds:run_show",
            "Show one unfinished payment. Neither its proof nor its result is ever shown.",
            (_ID, _JSON),
        ),
        Command(
            "retry",
            "ask the service again, now",
            "faregate.cli.holds:run_retry",
            "Ask the service again how the payment stands, and complete it if possible. A result is never "
            "released without the service's proof of payment. Once the payment is settled, its payer gets "
            "the result with the same payment. Exits with 0 only when nothing is left to do.",
            (_ID,),
        ),
        Command(
            "discard",
            "discard a stuck payment",
            "faregate.cli.holds:run_discard",
            "Discard a stuck payment: its result and its proof are lost. Payments that are not stuck are "
            "refused, because the sweep still works on them.",
            (
                _ID,
                Option(
                    "--paid",
                    "it was charged, or nobody knows: the payer gets 409 and is not asked to pay again; "
                    "the default",
                ),
                Option("--unpaid", "it is certain that nothing was charged: the payer may pay again"),
                Option("--yes", "do not ask for confirmation"),
            ),
        ),
    ),
    target="paywall",
)
JOURNAL: Final = Command(
    "journal",
    "show the journal's keys and addresses, and move its rows",
    description="Show which keys the journal still needs and where rows are unfinished, and move rows when "
    "the service has moved.",
    actions=(
        Command(
            "keys",
            "show what each key is still needed for",
            "faregate.cli.journal:run_keys",
            "List the keys that rows were written with: how many rows there are, how many are unfinished, "
            "and from when on the key is no longer needed.",
            (_JSON,),
        ),
        Command(
            "addresses",
            "count unfinished rows by address of the service",
            "faregate.cli.journal:run_addresses",
            "Count unfinished rows by key environment and address of the service.",
            (_JSON,),
        ),
        Command(
            "move",
            "move rows to the current address",
            "faregate.cli.journal:run_move",
            "Move the rows of an old address, in the environment of the API key, to the address in "
            "FAREGATE_BASE_URL. Can be repeated. Stop workers that still use the old address first.",
            (Option("address", "the previous FAREGATE_BASE_URL", metavar="OLD_ADDRESS"),),
        ),
    ),
    target="paywall",
)

COMMANDS: Final = (
    Command(
        "emulator",
        "run the merchant service on this machine",
        "faregate.emulator.cli:run_emulator",
        add_arguments="faregate.emulator.cli:add_emulator",
    ),
    Command(
        "service",
        "run the merchant service yourself, and settle real payments",
        "faregate.selfhosted.cli:run_service",
        add_arguments="faregate.selfhosted.cli:add_service",
    ),
    Command(
        "pay",
        "buy what is at a URL, and show each step",
        "faregate.pay.cli:run_pay",
        add_arguments="faregate.pay.cli:add_pay",
    ),
    ROUTES,
    CHECK,
    SWEEP,
    HOLDS,
    JOURNAL,
    Command(
        "probe",
        "test how a merchant service decides",
        "faregate.probe.cli:run_probe",
        add_arguments="faregate.probe.cli:add_probe",
    ),
    Command(
        "openapi",
        "print the merchant service as an OpenAPI 3.1 document",
        "faregate.merchant.openapi.__main__:run_openapi",
        add_arguments="faregate.merchant.openapi.__main__:add_openapi",
    ),
)

APP_OPTIONS: Final = (
    Option("app", "the application, as servers name it: shop:app", metavar="MODULE:APP"),
    Option("--app-dir", "look for the module in this directory; default the current one", str, "", "DIR"),
    Option("--factory", "APP is a function that returns the application"),
)
"""The options with which `faregate` loads an application; Flask and Django have loaded theirs."""
