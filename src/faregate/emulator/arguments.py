"""What `faregate emulator` may be called with."""

from argparse import ArgumentParser

DESCRIPTION = "Runs the merchant service on this machine, with nothing signed up for."


def add_emulator(command: ArgumentParser) -> None:
    command.description = DESCRIPTION
    add = command.add_argument
    add("--port", type=int, default=0, help="port to listen on; 0, the default, is any free one")
    add("--host", default="127.0.0.1", help="a loopback address; others need --allow-remote")
    add("--allow-remote", action="store_true", help="let other machines in, to the service's API only")
    add("--no-control", action="store_true", help="no control plane and no console, only the service's API")
    add("--world", metavar="FILE", help="a TOML file with keys and resources; otherwise the built-in world")
    add("--allow-live", action="store_true", help="let live keys in (they are 401 otherwise)")
    add("--state", metavar="FILE", help="keep what happened in this file, and begin with what is in it")
    add("--seed", metavar="N", help="the ids of the same story are the same; otherwise by chance")
    _add_time(command)
    add("--mode", metavar="NAME", default="clean", help="a known way of going wrong, such as double-402")
    add("--expose-execution-id", action="store_true", help="tell the execution id on free access")
    add("--json", action="store_true", help="print one line of JSON instead of text")


def _add_time(command: ArgumentParser) -> None:
    add = command.add_mutually_exclusive_group().add_argument
    add("--freeze", metavar="MOMENT", help="time begins here, and stands still: 2026-01-01T00:00Z")
    add("--rate", metavar="X", type=float, default=1.0, help="time runs so many times as fast")
