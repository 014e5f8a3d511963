"""`completion`: print a script with which a shell completes the commands and options of `faregate`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

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

    parser = build_parser(fill_all=_fill_or_skip)
    _add_choices(parser)
    return parser


def _fill_or_skip(fill: Callable[[], None]) -> None:
    try:
        fill()
    except (ImportError, FaregateError):
        return


def _add_choices(parser: ArgumentParser) -> None:
    """Offer an option's texts: its parser makes the value, so argparse itself has no choices."""
    subparsers: list[Any] = []
    for action in parser._actions:  # noqa: SLF001
        texts = getattr(action, "complete_choices", None)
        if texts:
            action.choices = texts
        choices: Any = action.choices
        if isinstance(choices, dict):
            subparsers.extend(cast("dict[str, Any]", choices).values())
    for one in subparsers:
        _add_choices(one)
