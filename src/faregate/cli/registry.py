"""The table of all commands. Importing it imports none of them.

Flask offers each command that has a `target`. Django offers a command only if a file in
`django/management/commands` names it: `tests/cli/test_commands.py` fails for a `target` without one.
"""

from typing import Final

from faregate.commands import (
    Command,
    Option,
    parse_choice,
    parse_count,
    parse_moment,
    parse_seconds,
)
from faregate.core.recovery import BATCH

_FORM: Final = (
    Option("--json", "print JSON instead of text; the default in a pipe"),
    Option("--text", "print text instead of JSON; the default on a terminal"),
)
_REFERENCE: Final = Option(
    "reference",
    "a transaction (txn_...), a chain hash or a payer's address (0x...)",
    metavar="TXN|HASH|PAYER",
)
_ID: Final = Option("id", "a transaction, such as txn_...", metavar="ID")

ROUTES: Final = Command(
    "routes",
    "list the application's routes as paid, free or refused",
    "faregate.cli.routes:run_routes",
    "List every route of the application as paid, free or refused. Exits with 1 if a path is declared that "
    "no request can reach, or if something is given away.",
    _FORM,
    target="routes",
)
CHECK: Final = Command(
    "check",
    "check that everything for sale can be sold",
    "faregate.cli.routes:run_check",
    "Check the routes, the journal, the API key, and every offer at the merchant service. Exits with 1 if "
    "something cannot be sold. `faregate check https://shop.example` tries from outside what a crawler "
    "tries, and says what keeps the seller from being listed.",
    _FORM,
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
    "list, show, retry or discard payments",
    description="List unfinished payments, show what became of one, and resolve those that only a person can "
    "resolve. `list` and `show` need the journal and its key, but no API key.",
    actions=(
        Command(
            "list",
            "list stuck and held payments, and paid results that were not fetched",
            "faregate.cli.holds:run_list",
            "List unfinished payments, stuck ones first, and paid results that were not fetched. Without "
            "FAREGATE_API_KEY and FAREGATE_BASE_URL, those of all addresses in the journal.",
            (
                Option("--all", "also list payments that are being served now"),
                Option("--stuck", "list only stuck payments, which only a person can end"),
                Option("--unfetched", "list only paid results that were not fetched"),
                *_FORM,
            ),
            target="journal",
        ),
        Command(
            "show",
            "show what became of a payment",
            "faregate.cli.holds:run_show",
            "Show what became of a payment, what was bought, and what to do next, as long as the journal has "
            "it. Neither its proof nor its result is ever shown. Exits with 3 if the journal has none.",
            (_REFERENCE, *_FORM),
            target="journal",
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
            "Discard a stuck payment, or one whose journal key is lost: its result and its proof are lost. "
            "Others are refused, because the sweep still works on them.",
            (
                _ID,
                Option(
                    "--paid",
                    "it was charged, or that is unknown: the payer gets 409 and is not asked to pay again; "
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
            _FORM,
        ),
        Command(
            "addresses",
            "count unfinished rows by address of the service",
            "faregate.cli.journal:run_addresses",
            "Count unfinished rows by key environment and address of the service.",
            _FORM,
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


def _choice(flag: str, help: str, metavar: str, choices: tuple[str, ...]) -> Option:
    """An option that is one of these texts, or None."""
    return Option(flag, help, parse_choice(*choices), metavar=metavar, choices=choices)


_FORMATS: Final = ("table", "json", "jsonl", "csv")
_LIMIT: Final = Option("--limit", "list no more than this", parse_count, metavar="N")
_ALL: Final = Option("--all", "list all; on a terminal the default is 50, elsewhere this")
_OUTPUT: Final = (
    Option("--json", "print JSON: an array with one object a line; the default in a pipe"),
    _choice(
        "--format",
        f"print or write {', '.join(_FORMATS)}; default: what the file's name says",
        "FORMAT",
        _FORMATS,
    ),
    Option("--output", "write to this file, with progress on stderr", str, "", metavar="FILE"),
)
_AS_OF: Final = Option(
    "--as-of",
    "list what the service knew at this time; repeat a list with the time it names",
    parse_moment,
    metavar="TIME",
)
_SNAPSHOT: Final = (
    _choice("--order", "newest or oldest first; default newest", "ORDER", ("newest", "oldest")),
    _AS_OF,
)
_SINCE: Final = Option(
    "--since",
    "created at this time or later: 2026-01-31, 2026-01-31T12:00Z, 12h or 30d",
    parse_moment,
    metavar="TIME",
)
_UNTIL: Final = Option("--until", "created before this time", parse_moment, metavar="TIME")
_STATUSES: Final = ("authorized", "settling", "reconciling", "failed", "succeeded")

TRANSACTIONS: Final = Command(
    "transactions",
    "list transactions",
    "faregate.cli.listing:run_transactions",
    "List transactions, newest first: a table on a terminal, JSON in a pipe, or a file. Amounts in data are "
    "whole numbers of atomic units: 10000 is 0.01 USDC.",
    (
        Option(
            "--status",
            f"only these: {', '.join(_STATUSES)}",
            str,
            metavar="STATUS",
            choices=_STATUSES,
        ),
        Option("--payer", "only of this payer: its pyr_ id or its address", str, "", metavar="PAYER"),
        Option(
            "--resource",
            "only sales of this resource: its integration key or its res_ id; reads each receipt",
            str,
            metavar="RESOURCE",
        ),
        _SINCE,
        _UNTIL,
        Option("--details", "in data, add asset and resource, from each receipt; a table has them always"),
        *_SNAPSHOT,
        _LIMIT,
        _ALL,
        *_OUTPUT,
    ),
    target="service",
)
PAYERS: Final = Command(
    "payers",
    "list payers",
    "faregate.cli.listing:run_payers",
    "List everybody who paid, newest first.",
    (*_SNAPSHOT, _LIMIT, _ALL, *_OUTPUT),
    target="service",
)
RESOURCES: Final = Command(
    "resources",
    "list resources",
    "faregate.cli.listing:run_resources",
    "List the resources of the API key's environment.",
    (Option("--archived", "list archived resources instead"), *_SNAPSHOT, _LIMIT, _ALL, *_OUTPUT),
    target="service",
)
CONTRACTS: Final = Command(
    "contracts",
    "list what can be sold and reported, or write types for it",
    "faregate.cli.listing:run_contracts",
    "List the active revisions: integration keys, assets and values to report.",
    (
        Option("--python", "print a Python module with a type for the values of each integration key"),
        _LIMIT,
        _ALL,
        *_OUTPUT,
    ),
    target="service",
)
RECEIPT: Final = Command(
    "receipt",
    "show the receipt of a transaction",
    "faregate.cli.receipt:run_receipt",
    "Show the receipt of a transaction. Exits with 1 if it has none yet.",
    (_ID, *_FORM),
    target="service",
)
_STEPS: Final = ("hour", "day", "week", "month")
REPORT: Final = Command(
    "report",
    "show revenue and outcomes over time",
    "faregate.cli.report:run_report",
    "Show revenue and outcomes over time: bars on a terminal, JSON in a pipe, or a page. Reads the receipt "
    "of each transaction that succeeded.",
    (
        Option(
            "--since",
            "from this time: 2026-01-31, 2026-01-31T12:00Z, 12h or 30d; default 30d",
            parse_moment,
            metavar="TIME",
        ),
        Option("--until", "to this time; default now", parse_moment, metavar="TIME"),
        _choice("--by", f"one bar for each {', '.join(_STEPS)}; default: what fits the time", "STEP", _STEPS),
        _AS_OF,
        Option("--html", "write a page to this file: one file, without scripts", str, "", metavar="FILE"),
        Option("--open", "show the page in a web browser; without --html it is faregate-report.html"),
        *_FORM,
    ),
    target="service",
)

_FRAMEWORKS: Final = ("fastapi", "starlette", "flask", "django", "asgi", "wsgi", "mcp")
INIT: Final = Command(
    "init",
    "write the smallest set-up and a test for your framework",
    "faregate.cli.init.command:run_init",
    "Write an application that sells something, a test that buys it, and an example of the settings into "
    "the current folder. An existing application is not changed: the lines to add are printed.",
    (
        _choice(
            "name",
            f"{', '.join(_FRAMEWORKS)}; default: that of the application here, or the one installed",
            "FRAMEWORK",
            _FRAMEWORKS,
        ),
        _choice("--framework", "the same, as an option", "NAME", _FRAMEWORKS),
        Option("--app", "the file of your application, if there are several", str, "", metavar="FILE"),
        Option("--real", "take real payments: prices in the code, the service inside the process"),
        Option("--dry-run", "write nothing, and say what would be written"),
        Option("--force", "overwrite files of the same names"),
    ),
)

EMULATOR: Final = Command(
    "emulator",
    "run the merchant service on this machine, with a console",
    declaration="faregate.emulator.cli:EMULATOR",
)
SERVICE: Final = Command(
    "service",
    "run the merchant service yourself, with real payments",
    declaration="faregate.service.cli:SERVICE",
)
PAY: Final = Command(
    "pay",
    "buy what is at a URL, and show each step",
    declaration="faregate.pay.cli:PAY",
)
PROBE: Final = Command(
    "probe",
    "test how a merchant service decides",
    declaration="faregate.probe.cli:PROBE",
)
COMPLETION: Final = Command(
    "completion",
    "print a script that completes commands in a shell",
    "faregate.cli:run_completion",
    "Print a script for this shell. bash: faregate completion bash > "
    "~/.local/share/bash-completion/completions/faregate; zsh: into a file _faregate in a folder of fpath; "
    "fish: into ~/.config/fish/completions/faregate.fish.",
    (Option("shell", "the shell", choices=("bash", "zsh", "fish")),),
)
OPENAPI: Final = Command(
    "openapi",
    "print the merchant service as an OpenAPI 3.1 document",
    "faregate.merchant.openapi.__main__:run_openapi",
    "Prints the merchant service as an OpenAPI 3.1 document.",
)

GROUPS: Final = {
    "Build": (INIT, EMULATOR, PAY, ROUTES, CHECK, OPENAPI, COMPLETION),
    "Sell": (TRANSACTIONS, PAYERS, RESOURCES, CONTRACTS, RECEIPT, REPORT),
    "Run": (SWEEP, HOLDS, JOURNAL, SERVICE, PROBE),
}
"""The commands by what a seller is doing, as `faregate --help` and the pages docs/cli-*.md list them."""
COMMANDS: Final = tuple(command for commands in GROUPS.values() for command in commands)

APP_OPTIONS: Final = (
    Option(
        "app", "the application, as servers name it: shop:app; check takes a URL too", metavar="MODULE:APP"
    ),
    Option("--app-dir", "look for the module in this directory; default the current one", str, "", "DIR"),
    Option("--factory", "APP is a function that returns the application"),
)
"""The options with which `faregate` loads an application; Flask and Django have loaded theirs."""
