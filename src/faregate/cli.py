"""`faregate`, the command. What a subcommand does is in its own module, imported when it is called for."""

import argparse
import sys
from collections.abc import Callable, Sequence

from faregate.errors import FaregateError
from faregate.loading import WrongCall

Run = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. 0 is well, 1 is a fault told in a sentence on stderr, 2 is a wrong call."""
    arguments = _parser().parse_args(argv)
    run: Run = arguments.run
    try:
        return run(arguments)
    except WrongCall as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 2
    except (FaregateError, ImportError) as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 1


def _emulator(arguments: argparse.Namespace) -> int:
    from faregate.emulator.command import run_emulator

    return run_emulator(arguments)


def _routes(arguments: argparse.Namespace) -> int:
    from faregate.routes import run_routes

    return run_routes(arguments)


def _check(arguments: argparse.Namespace) -> int:
    from faregate.routes import run_check

    return run_check(arguments)


def _sweep(arguments: argparse.Namespace) -> int:
    from faregate.sweeping import run_sweep

    return run_sweep(arguments)


def _holds(arguments: argparse.Namespace) -> int:
    from faregate.holds import run_holds

    return run_holds(arguments)


def _pay(arguments: argparse.Namespace) -> int:
    from faregate.pay.command import run_pay

    return run_pay(arguments)


def _probe(arguments: argparse.Namespace) -> int:
    from faregate.probe.command import run_probe

    return run_probe(arguments)


def _openapi(arguments: argparse.Namespace) -> int:
    from faregate.merchant.description.command import run_openapi

    return run_openapi(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faregate", description="Charge for an HTTP resource.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_emulator(
        commands.add_parser(
            "emulator",
            help="run the merchant service on this machine",
            description="Runs the merchant service on this machine, with nothing signed up for.",
        )
    )
    _add_app(
        commands.add_parser(
            "routes",
            help="list what an application sells",
            description="Lists every route of an application as paid, free or refused. "
            "Ends with 1 if something is declared that no request can reach.",
        ),
        _routes,
    )
    _add_app(
        commands.add_parser(
            "check",
            help="ask the merchant service whether all of it can be sold",
            description="Asks the merchant service whether everything that is for sale can be sold. "
            "Ends with 1 if not.",
        ),
        _check,
    )
    _add_sweep(
        commands.add_parser(
            "sweep",
            help="finish what payers left open",
            description="Walks over the journal that FAREGATE_JOURNAL names, and finishes what was "
            "interrupted or held while its payer is away. A SIGTERM is heard between two sales.",
        )
    )
    _add_holds(
        commands.add_parser(
            "holds",
            help="what is owed to payers, and what people can do about it",
            description="Lists what the journal that FAREGATE_JOURNAL names owes to payers, and does what "
            "only people can do about it.",
        )
    )
    _add_pay(commands.add_parser("pay", help="buy what is at a URL, and see each step"))
    _add_probe(commands.add_parser("probe", help="find out what a merchant service decides"))
    commands.add_parser("openapi", help="print the service as OpenAPI 3.1").set_defaults(run=_openapi)
    return parser


def _add_emulator(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_emulator)
    add = command.add_argument
    add("--port", type=int, default=0, help="port to listen on; 0, the default, is any free one")
    add("--host", default="127.0.0.1", help="a loopback address; others need --allow-remote")
    add("--allow-remote", action="store_true", help="let other machines in, to the service's API only")
    add("--no-control", action="store_true", help="no control plane and no console, only the service's API")
    add("--world", metavar="FILE", help="a TOML file with keys and resources; otherwise the built-in world")
    add("--allow-live", action="store_true", help="let live keys in (they are 401 otherwise)")
    add("--state", metavar="FILE", help="keep what happened in this file, and begin with what is in it")
    add("--seed", metavar="N", help="the ids of the same story are the same; otherwise by chance")
    time = command.add_mutually_exclusive_group()
    time.add_argument(
        "--freeze", metavar="MOMENT", help="time begins here, and stands still: 2026-01-01T00:00Z"
    )
    time.add_argument("--rate", metavar="X", type=float, default=1.0, help="time runs so many times as fast")
    add("--mode", metavar="NAME", default="clean", help="a known way of going wrong, such as double-402")
    add("--expose-execution-id", action="store_true", help="tell the execution id on free access")
    add("--json", action="store_true", help="print one line of JSON instead of text")


def _add_sweep(command: argparse.ArgumentParser) -> None:
    from faregate.sweeping import add_sweep

    command.set_defaults(run=_sweep)
    add_sweep(command)


def _add_holds(command: argparse.ArgumentParser) -> None:
    from faregate.holds import add_holds

    command.set_defaults(run=_holds)
    add_holds(command)


def _add_pay(command: argparse.ArgumentParser) -> None:
    from faregate.pay.arguments import add_pay

    command.set_defaults(run=_pay)
    add_pay(command)


def _add_probe(command: argparse.ArgumentParser) -> None:
    from faregate.probe.arguments import add_probe

    command.set_defaults(run=_probe)
    add_probe(command)


def _add_app(command: argparse.ArgumentParser, run: Run) -> None:
    command.set_defaults(run=run)
    add = command.add_argument
    add("app", metavar="MODULE:APP", help="the application, as servers name it: shop:app")
    add("--app-dir", default="", metavar="DIR", help="look for the module here, not in this directory")
    add("--factory", action="store_true", help="APP is a function that makes the application")
    add("--json", action="store_true", help="print JSON instead of text")


if __name__ == "__main__":
    sys.exit(main())
