"""`faregate service`: its actions. The modules of an action are imported when it is called."""

from collections.abc import Sequence
from typing import Final

from faregate.commands import Command, Option, parse_choice, parse_count
from faregate.rules.account import CAPABILITIES
from faregate.service.settings import list_options
from faregate.x402.tokens import ENVIRONMENTS

_EPILOG: Final = (
    "Settings are options, environment variables (FAREGATE_SERVICE_DATABASE and others) or keys of the file "
    "that --config names, in this order of preference."
)
_DATABASE: Final = ("database", "database_file")
_PAYMENTS: Final = (
    "payments",
    "facilitator_test",
    "facilitator_live",
    "auth_hook",
    "rpc_test",
    "rpc_live",
    "confirmations",
    "gas_key",
    "max_fee_gwei",
    "gas_alarm_eth",
)
_LOGS: Final = ("log_format", "log_level")
_SERVER: Final = (
    "catalog",
    "host",
    "port",
    "complete_seconds",
    "threads",
    "pool_size",
    "workers",
    "expose_execution_id",
)
_LIMITS: Final = ("rate_limit", "anonymous_rate_limit")
_JSON: Final = Option("--json", "print JSON instead of text")
_ACCOUNT: Final = (
    Option(
        "--environment",
        "test or live; default test, or FAREGATE_ENVIRONMENT with FAREGATE_BASE_URL=service:",
        parse_choice(*ENVIRONMENTS),
        choices=ENVIRONMENTS,
    ),
    Option("--seller", "the seller's id or name, if there are several", str, metavar="ID"),
)
_PAYMENT: Final = Option("id", "the transaction", metavar="ID")
_REFUND: Final = (
    Option("id", "the transaction whose payment was refunded", metavar="ID"),
    Option("--hash", "the chain's transaction: 0x...", str, metavar="HASH", is_required=True),
)


def _make_action(
    name: str, summary: str, run: str, settings: Sequence[str], options: Sequence[Option] = ()
) -> Command:
    """Make an action that reads these settings. `run` is below `faregate.service.commands`."""
    return Command(
        name,
        summary,
        f"faregate.service.commands.{run}",
        options=(*options, *list_options(settings)),
        epilog=_EPILOG,
    )


def _make_group(name: str, summary: str, actions: tuple[Command, ...]) -> Command:
    return Command(name, summary, actions=actions, epilog=_EPILOG)


_ACTIONS: Final = (
    _make_action(
        "serve",
        "answer requests, and settle payments",
        "serve:run_serve",
        (*_DATABASE, *_SERVER, *_PAYMENTS, *_LIMITS, *_LOGS),
        (Option("--json", "print the address as one line of JSON"),),
    ),
    _make_action(
        "work",
        "settle payments only, beside processes that serve",
        "serve:run_work",
        (*_DATABASE, "workers", "host", "metrics_port", *_PAYMENTS, *_LOGS),
    ),
    _make_action(
        "init",
        "create the tables, or bring them to this version",
        "setup:run_init",
        _DATABASE,
    ),
    _make_action(
        "apply",
        "make the catalog match a file",
        "setup:run_apply",
        (*_DATABASE, "payments"),
        (
            Option("file", "the catalog: seller, resources, prices (TOML)", metavar="CATALOG"),
            Option(
                "--archive-missing",
                "archive resources that the file does not have; otherwise they stay for sale",
            ),
            Option("--yes", "change addresses and prices without asking on the terminal"),
            _JSON,
        ),
    ),
    _make_group(
        "key",
        "create, list and revoke API keys",
        (
            _make_action(
                "create",
                "create a key, and show it once",
                "keys:run_create",
                _DATABASE,
                (
                    *_ACCOUNT,
                    Option("--name", "what the key is for, to tell it from others", str, ""),
                    Option(
                        "--capability",
                        f"what the key may do, once for each; default all: {', '.join(CAPABILITIES)}",
                        parse_choice(*CAPABILITIES),
                        metavar="NAME",
                        choices=CAPABILITIES,
                        is_repeatable=True,
                    ),
                    _JSON,
                ),
            ),
            _make_action("list", "list keys", "keys:run_list", _DATABASE, (*_ACCOUNT, _JSON)),
            _make_action(
                "revoke",
                "revoke a key at once",
                "keys:run_revoke",
                _DATABASE,
                (Option("id", "the key's id, as `key list` shows it", metavar="ID"),),
            ),
        ),
    ),
    _make_action(
        "reconcile",
        "compare all payments with the chain; exits with 1 if one differs, 3 if the chain cannot be read",
        "reconcile:run_reconcile",
        (*_DATABASE, *_PAYMENTS),
        (
            Option("id", "one transaction, also one that has ended", str, metavar="ID"),
            Option(
                "--since",
                "compare what was created since this date (UTC); default 7 days ago",
                str,
                metavar="DATE",
            ),
            Option("--all", "compare everything"),
            _JSON,
        ),
    ),
    _make_group(
        "payment",
        "show one payment, attempt it now, or stop its attempts",
        (
            _make_action(
                "show",
                "show everything known of a payment",
                "payment:run_show",
                _DATABASE,
                (_PAYMENT, _JSON),
            ),
            _make_action(
                "retry",
                "attempt to settle a payment now, parked or not",
                "payment:run_retry",
                (*_DATABASE, *_PAYMENTS),
                (
                    _PAYMENT,
                    _JSON,
                    Option(
                        "--accept-less",
                        "take a payment by use for what was settled, although more was used",
                    ),
                ),
            ),
            _make_action(
                "park",
                "stop the attempts to settle a payment",
                "payment:run_park",
                _DATABASE,
                (
                    _PAYMENT,
                    _JSON,
                    Option(
                        "--reason",
                        "why, for whoever looks at it later",
                        str,
                        metavar="TEXT",
                        is_required=True,
                    ),
                ),
            ),
        ),
    ),
    _make_group(
        "refund",
        "record transfers back to payers, and list them",
        (
            _make_action(
                "record",
                "record a transfer that refunds a payment, once the chain proves it",
                "refund:run_record",
                (*_DATABASE, *_PAYMENTS),
                (
                    *_REFUND,
                    Option(
                        "--from",
                        "the address that sent the refund; default the seller's pay_to",
                        str,
                        metavar="ADDRESS",
                    ),
                    Option(
                        "--transfer",
                        "which of the transfers to the payer, from 1, if the chain's transaction has several",
                        parse_count,
                        metavar="NUMBER",
                    ),
                    _JSON,
                ),
            ),
            _make_action("list", "list refunds", "refund:run_list", _DATABASE, (*_ACCOUNT, _JSON)),
            _make_action(
                "remove",
                "count a recorded transfer as a refund no more",
                "refund:run_remove",
                _DATABASE,
                _REFUND,
            ),
        ),
    ),
    _make_action(
        "export",
        "write transactions as CSV or JSON lines",
        "export:run_export",
        _DATABASE,
        (
            *_ACCOUNT,
            Option(
                "--format",
                "CSV or one JSON object a line; default csv",
                parse_choice("csv", "jsonl"),
                "csv",
                choices=("csv", "jsonl"),
            ),
            Option("--output", "write to this file instead of standard output", str, metavar="FILE"),
        ),
    ),
    _make_action(
        "doctor",
        "check everything that the settings name",
        "doctor:run_doctor",
        (*_DATABASE, *_PAYMENTS),
        (_JSON,),
    ),
)
SERVICE: Final = Command(
    "service",
    "run the merchant service yourself, with real payments",
    description="Run the Merchant API yourself, on SQLite or PostgreSQL. Payments are settled by an x402 "
    "facilitator, or by a gas account of your own, or they are simulated.",
    actions=_ACTIONS,
    epilog=_EPILOG,
)
