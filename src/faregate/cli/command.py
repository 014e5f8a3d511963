"""Commands as data, from which `faregate`, `flask faregate` and `manage.py` make their parsers."""

import math
import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final, Literal

Echo = Callable[[str], object]
"""Prints text and a line break."""
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command; a positional argument if `flag` has no dashes. With `parse` it may be left out.

    `parse` makes its value from text, also from `default`, and raises `ValueError` with a message. Without
    `parse` it is a switch, unless it is positional. `choices` are the texts it may have, for help and
    completion; `parse` refuses others.
    """

    flag: str
    help: str
    parse: Callable[[str], Any] | None = None
    default: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def is_positional(self) -> bool:
        return not self.flag.startswith("-")


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of one.

    `run` names a function as `module:function`; it is imported when the command is called. It receives
    what `target` says (an application's `RouteTable`, a `Paywall`, a `JournalView` or a `MerchantClient`), an
    `Echo` and the options by name, and returns the exit status. An action's own `target` wins.

    A command without `target` belongs to `faregate` alone: its `run` receives argparse's `Namespace`, and
    the function that `add_arguments` names fills its parser.
    """

    name: str
    summary: str
    run: str = ""
    description: str | None = None
    options: tuple[Option, ...] = ()
    actions: tuple["Command", ...] = ()
    target: Literal["routes", "paywall", "journal", "service"] | None = None
    add_arguments: str = ""

    def get_target(self, action: "Command") -> str | None:
        """What an action of this command, or the command itself, receives."""
        return action.target or self.target

    def call(self, target: Any, echo: Echo, values: Mapping[str, Any]) -> int:
        """Run the command with the values of its options; others in `values` are left out."""
        options = {option.name: values[option.name] for option in self.options}
        status: int = import_name(self.run)(target, echo, **options)
        return status


def import_name(path: str) -> Callable[..., Any]:
    """Import the function that `path` names, such as `faregate.cli.sweep:run_sweep`."""
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def fill_parser(parser: ArgumentParser, command: Command) -> None:
    """Add the options and actions of a command. Parsing sets `selected` to the action that was called."""
    parser.set_defaults(selected=command)
    for option in command.options:
        _add_option(parser, option)
    if command.actions:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action in command.actions:
            subparser = actions.add_parser(
                action.name, help=action.summary, description=action.description or action.summary
            )
            fill_parser(subparser, action)


def _add_option(parser: ArgumentParser, option: Option) -> None:
    if option.is_positional and option.parse is None:
        parser.add_argument(option.flag, metavar=option.metavar, help=option.help)
    elif option.parse is None:
        parser.add_argument(option.flag, action="store_true", help=option.help)
    else:
        parser.add_argument(
            option.flag,
            type=raise_as(ArgumentTypeError, option.parse),
            default=option.default,
            nargs="?" if option.is_positional else None,
            metavar=option.metavar,
            choices=_Choices(option.choices) if option.choices else None,
            help=option.help,
        )


class _Choices(tuple[str, ...]):
    """The texts of an option, for completion. `parse` refuses others; argparse would refuse its values."""

    def __contains__(self, value: object) -> bool:
        return True


def raise_as(error_type: type[Exception], parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse`, raising `error_type` with the same message: of a `ValueError`, parsers hide the message."""

    def parse_or_raise(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise error_type(str(error)) from None

    return parse_or_raise


def parse_seconds(text: str) -> float:
    """Parse a finite number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return seconds


def parse_count(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def parse_optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse`, for an option that is None when it is not given."""
    return lambda text: parse(text) if text else None


def parse_choice(*choices: str) -> Callable[[str], str]:
    """A parser of one of these texts."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def parse_moment(text: str) -> datetime:
    """Parse a time: a date, a date and time (UTC unless it says otherwise), or an age such as 12h or 30d."""
    if age := re.fullmatch(r"([0-9]{1,6})([mhdw])", text):
        return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: say 2026-01-31, 2026-01-31T12:00Z, 12h or 30d") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
