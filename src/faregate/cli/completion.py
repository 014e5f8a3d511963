"""`completion`: print a script with which a shell completes the commands and options of `faregate`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from typing import Final

from faregate.errors import CommandError, FaregateError

SHELLS: Final = ("bash", "zsh", "fish")
_ABOUT: Final = (
    "Print a script for this shell. bash: faregate completion bash > "
    "~/.local/share/bash-completion/completions/faregate; zsh: into a file _faregate in a folder of fpath; "
    "fish: into ~/.config/fish/completions/faregate.fish."
)


def add_completion(parser: ArgumentParser) -> None:
    parser.description = _ABOUT
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run_completion(arguments: Namespace) -> int:
    """Print the script. Raises `CommandError` without shtab."""
    try:
        complete: Callable[..., str] = import_module("shtab").complete
    except ImportError:
        raise CommandError("Completion needs shtab: pip install 'faregate[cli]'.") from None
    print(complete(_build_full_parser(), shell=arguments.shell))
    return 0


def _build_full_parser() -> ArgumentParser:
    """The parser with every command filled; without its options where its extra is not installed."""
    from faregate.cli import build_parser

    return build_parser(fill_all=_fill_or_skip)


def _fill_or_skip(fill: Callable[[], None]) -> None:
    try:
        fill()
    except (ImportError, FaregateError):
        return
