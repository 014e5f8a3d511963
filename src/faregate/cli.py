"""`faregate`, the command. One subcommand so far: `faregate emulator`."""

import argparse
import sys
from collections.abc import Sequence

from faregate.errors import FaregateError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. 0 is well, 1 is a fault told in a sentence on stderr, 2 is a wrong call."""
    arguments = _parser().parse_args(argv)
    try:
        return _emulator(arguments)
    except (FaregateError, ImportError) as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 1


def _emulator(arguments: argparse.Namespace) -> int:
    from faregate.emulator.command import run_emulator

    return run_emulator(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faregate", description="Charge for an HTTP resource.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "emulator",
        help="run the merchant service on this machine",
        description="Runs the merchant service on this machine, with nothing signed up for.",
    )
    add = command.add_argument
    add("--port", type=int, default=0, help="port to listen on; 0, the default, is any free one")
    add("--host", default="127.0.0.1", help="a loopback address; others are refused")
    add("--world", metavar="FILE", help="a TOML file with keys and resources; otherwise the built-in world")
    add("--allow-live", action="store_true", help="let live keys in (they are 401 otherwise)")
    add("--expose-execution-id", action="store_true", help="tell the execution id on free access")
    add("--json", action="store_true", help="print one line of JSON instead of text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
