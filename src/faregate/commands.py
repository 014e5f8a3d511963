"""Commands as data, from which `faregate`, `flask faregate` and `manage.py` make their parsers.

`cli/registry.py` has the table of them.
"""

import math
import re
from argparse import ArgumentParser, ArgumentTypeError
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
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

    The fields below `choices` are for commands of `faregate` alone. Of the options of one `group`, a call may
    have one. `is_repeatable` makes the value a list.
    """

    flag: str
    help: str
    parse: Callable[[str], Any] | None = None
    default: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    short: str = ""
    group: str = ""
    is_required: bool = False
    is_repeatable: bool = False

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

    A command without `target` belongs to `faregate` alone: its `run` receives argparse's `Namespace`. Where
    its options are known to a package that may not be installed, `declaration` names the whole command, as
    `module:NAME`, and `load` imports it.
    """

    name: str
    summary: str
    run: str = ""
    description: str | None = None
    options: tuple[Option, ...] = ()
    actions: tuple["Command", ...] = ()
    target: Literal["routes", "paywall", "journal", "service"] | None = None
    epilog: str | None = None
    declaration: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.summary[:1].upper()}{self.summary[1:]}."

    def load(self) -> "Command":
        """Return the command with its options and actions."""
        if not self.declaration:
            return self
        declared: Command = import_name(self.declaration)
        return declared

    def get_target(self, action: "Command") -> str | None:
        """What an action of this command, or the command itself, receives."""
        return action.target or self.target

    def call(self, target: Any, echo: Echo, values: Mapping[str, Any]) -> int:
        """Run the command with the values of its options; others in `values` are left out."""
        options = {option.name: values[option.name] for option in self.options}
        status: int = import_name(self.run)(target, echo, **options)
        return status


def import_name(path: str) -> Any:
    """Import what `path` names, such as `faregate.cli.sweep:run_sweep`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def fill_parser(parser: ArgumentParser, command: Command) -> None:
    """Add the options and actions of a command. Parsing sets `selected` to the action that was called."""
    parser.set_defaults(selected=command)
    add_options(parser, command.options)
    if command.actions:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action in command.actions:
            subparser = actions.add_parser(
                action.name,
                help=action.summary,
                description=action.description or action.sentence,
                epilog=action.epilog,
            )
            fill_parser(subparser, action)


def add_options(parser: ArgumentParser, options: Sequence[Option]) -> None:
    """Add options to a parser."""
    groups = defaultdict[str, Any](parser.add_mutually_exclusive_group)
    for option in options:
        add = (groups[option.group] if option.group else parser).add_argument
        add(*filter(None, (option.short, option.flag)), **_list_arguments(option))


def _list_arguments(option: Option) -> dict[str, Any]:
    """List the arguments of `add_argument` for an option."""
    arguments: dict[str, Any] = {"help": option.help}
    if option.parse is None and not option.is_positional:
        return {**arguments, "action": "store_true"}
    if option.metavar is not None:
        arguments["metavar"] = option.metavar
    if option.parse is None:
        return {**arguments, "choices": option.choices or None}
    arguments |= {"type": raise_as(ArgumentTypeError, option.parse), "default": option.default}
    if option.is_positional:
        arguments["nargs"] = "?"
    if option.choices:
        arguments["choices"] = _Choices(option.choices)
    if option.is_repeatable:
        arguments |= {"action": "append", "default": []}
    if option.is_required:
        arguments["required"] = True
    return arguments


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
