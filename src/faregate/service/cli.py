"""`faregate service`: the parser. The modules of an action are imported when it is called."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from faregate.rules.config import CAPABILITIES
from faregate.service.settings import add_options
from faregate.x402.tokens import ENVIRONMENTS

DESCRIPTION: Final = (
    "Run the Merchant API yourself, on SQLite or PostgreSQL. Payments are settled by an x402 facilitator, or "
    "by a gas account of your own, or they are simulated."
)
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


@dataclass(frozen=True, slots=True)
class Action:
    """One action. `run` names a function as `module:function`; it receives the `Namespace`."""

    name: str
    summary: str
    run: str
    settings: Sequence[str] = ()
    fill: Callable[[ArgumentParser], None] | None = None
    actions: tuple["Action", ...] = ()


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _fill_serve(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the address as one line of JSON")


def _fill_apply(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="CATALOG", help="the catalog: seller, resources, prices (TOML)")
    parser.add_argument(
        "--archive-missing",
        action="store_true",
        help="archive resources that the file does not have; otherwise they stay for sale",
    )
    parser.add_argument(
        "--yes", action="store_true", help="change addresses and prices without asking on the terminal"
    )
    _add_json(parser)


def _fill_key_create(parser: ArgumentParser) -> None:
    _add_account(parser)
    parser.add_argument("--name", default="", help="what the key is for, to tell it from others")
    parser.add_argument(
        "--capability",
        action="append",
        choices=CAPABILITIES,
        metavar="NAME",
        help=f"what the key may do, once for each; default all: {', '.join(CAPABILITIES)}",
    )
    _add_json(parser)


def _fill_key_list(parser: ArgumentParser) -> None:
    _add_account(parser)
    _add_json(parser)


def _fill_key_revoke(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the key's id, as `key list` shows it")


def _add_account(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--environment", choices=ENVIRONMENTS, default="test", help="test or live; default test"
    )
    parser.add_argument("--seller", metavar="ID", help="the seller's id or name, if there are several")


def _fill_export(parser: ArgumentParser) -> None:
    _add_account(parser)
    parser.add_argument(
        "--format", choices=("csv", "jsonl"), default="csv", help="CSV or one JSON object a line; default csv"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")


def _fill_reconcile(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="one transaction, also one that has ended")
    parser.add_argument(
        "--since", metavar="DATE", help="compare what was created since this date (UTC); default 7 days ago"
    )
    parser.add_argument("--all", action="store_true", help="compare everything")
    _add_json(parser)


def _fill_payment(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the transaction")
    _add_json(parser)


def _fill_payment_park(parser: ArgumentParser) -> None:
    _fill_payment(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why, for whoever looks at it later")


def _fill_refund(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the transaction whose payment was refunded")
    parser.add_argument("--hash", metavar="HASH", required=True, help="the chain's transaction: 0x...")


def _fill_refund_record(parser: ArgumentParser) -> None:
    _fill_refund(parser)
    parser.add_argument(
        "--from",
        dest="sender",
        metavar="ADDRESS",
        help="the address that sent the refund; default the seller's pay_to",
    )
    parser.add_argument(
        "--transfer",
        type=int,
        metavar="NUMBER",
        help="which of the transfers to the payer, from 1, if the chain's transaction has several",
    )
    _add_json(parser)


_COMMANDS: Final = "faregate.service.commands"
ACTIONS: Final = (
    Action(
        "serve",
        "answer requests, and settle payments",
        f"{_COMMANDS}.serve:run_serve",
        (*_DATABASE, *_SERVER, *_PAYMENTS, *_LIMITS, *_LOGS),
        _fill_serve,
    ),
    Action(
        "work",
        "settle payments only, beside processes that serve",
        f"{_COMMANDS}.serve:run_work",
        (*_DATABASE, "workers", "host", "metrics_port", *_PAYMENTS, *_LOGS),
    ),
    Action(
        "init",
        "create the tables, or bring them to this version",
        f"{_COMMANDS}.setup:run_init",
        _DATABASE,
    ),
    Action(
        "apply",
        "make the catalog match a file",
        f"{_COMMANDS}.setup:run_apply",
        (*_DATABASE, "payments"),
        _fill_apply,
    ),
    Action(
        "key",
        "create, list and revoke API keys",
        "",
        actions=(
            Action(
                "create",
                "create a key, and show it once",
                f"{_COMMANDS}.keys:run_create",
                _DATABASE,
                _fill_key_create,
            ),
            Action("list", "list keys", f"{_COMMANDS}.keys:run_list", _DATABASE, _fill_key_list),
            Action(
                "revoke",
                "revoke a key at once",
                f"{_COMMANDS}.keys:run_revoke",
                _DATABASE,
                _fill_key_revoke,
            ),
        ),
    ),
    Action(
        "reconcile",
        "compare all payments with the chain; exits with 1 if one differs, 3 if the chain cannot be read",
        f"{_COMMANDS}.reconcile:run_reconcile",
        (*_DATABASE, *_PAYMENTS),
        _fill_reconcile,
    ),
    Action(
        "payment",
        "show one payment, attempt it now, or stop its attempts",
        "",
        actions=(
            Action(
                "show",
                "show everything known of a payment",
                f"{_COMMANDS}.payment:run_show",
                _DATABASE,
                _fill_payment,
            ),
            Action(
                "retry",
                "attempt to settle a payment now, parked or not",
                f"{_COMMANDS}.payment:run_retry",
                (*_DATABASE, *_PAYMENTS),
                _fill_payment,
            ),
            Action(
                "park",
                "stop the attempts to settle a payment",
                f"{_COMMANDS}.payment:run_park",
                _DATABASE,
                _fill_payment_park,
            ),
        ),
    ),
    Action(
        "refund",
        "record transfers back to payers, and list them",
        "",
        actions=(
            Action(
                "record",
                "record a transfer that refunds a payment, once the chain proves it",
                f"{_COMMANDS}.refund:run_record",
                (*_DATABASE, *_PAYMENTS),
                _fill_refund_record,
            ),
            Action("list", "list refunds", f"{_COMMANDS}.refund:run_list", _DATABASE, _fill_key_list),
            Action(
                "remove",
                "count a recorded transfer as a refund no more",
                f"{_COMMANDS}.refund:run_remove",
                _DATABASE,
                _fill_refund,
            ),
        ),
    ),
    Action(
        "export",
        "write transactions as CSV or JSON lines",
        f"{_COMMANDS}.export:run_export",
        _DATABASE,
        _fill_export,
    ),
    Action(
        "doctor",
        "check everything that the settings name",
        f"{_COMMANDS}.doctor:run_doctor",
        (*_DATABASE, *_PAYMENTS),
        _add_json,
    ),
)


def add_service(parser: ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = _EPILOG
    _add_actions(parser, ACTIONS)


def _add_actions(parser: ArgumentParser, actions: Sequence[Action]) -> None:
    subparsers = parser.add_subparsers(required=True, metavar="ACTION")
    for action in actions:
        subparser = subparsers.add_parser(
            action.name, help=action.summary, description=f"{action.summary.capitalize()}.", epilog=_EPILOG
        )
        if action.actions:
            _add_actions(subparser, action.actions)
            continue
        if action.fill is not None:
            action.fill(subparser)
        add_options(subparser, action.settings)
        subparser.set_defaults(run_action=action.run)


def run_service(arguments: Namespace) -> int:
    """Run the action, and return its exit status."""
    # Settings name functions, which may be in this folder. It is searched last: it hides nothing installed.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, name = arguments.run_action.partition(":")
    run: Callable[[Namespace], Any] = getattr(import_module(module), name)
    status: int = run(arguments)
    return status
