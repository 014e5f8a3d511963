"""The commands and their options, for a page of each group, from their parsers."""

import re
from argparse import Action, ArgumentParser, _HelpAction, _SubParsersAction
from collections.abc import Iterator

from docs_site.pages import DOCS
from faregate.cli import fill_command
from faregate.cli.registry import GROUPS
from faregate.commands import Command

PAGES = tuple(DOCS / f"cli-{group.lower()}.md" for group in GROUPS)
_BLOCK = re.compile(r"^<!-- commands: (\w+) -->\n.*?^<!-- end of commands -->\n", re.MULTILINE | re.DOTALL)


def with_commands(text: str) -> str:
    """The page as its file should be: with the current commands of its group."""
    return _BLOCK.sub(lambda match: _fill_block(match[1]), text)


def _fill_block(group: str) -> str:
    sections = "\n".join("\n".join(_describe(command)) for command in GROUPS[group])
    return f"<!-- commands: {group} -->\n\n{sections}\n<!-- end of commands -->\n"


def _describe(command: Command) -> Iterator[str]:
    parser = ArgumentParser(prog=f"faregate {command.name}", description=command.description)
    fill_command(parser, command)
    yield f"## `{parser.prog}`\n"
    yield from _describe_parser(parser, set())


def _describe_parser(parser: ArgumentParser, seen: set[str], summary: str = "") -> Iterator[str]:
    """Its description, its options as a table, and each of its actions.

    `seen` has the rows of earlier actions of the command: an option that has one of them is only named.
    """
    description = parser.description or ""
    if description.rstrip(".").lower() in ("", summary.lower()):
        description = f"{summary[:1].upper()}{summary[1:]}."
    yield f"{_escape(description)}\n"
    actions = parser._actions  # argparse has no public list of them
    own = [action for action in actions if not isinstance(action, _HelpAction | _SubParsersAction)]
    rows = {_describe_option(parser, action): ", ".join(action.option_strings) for action in own}
    if new := [row for row in rows if row not in seen]:
        yield "| Option | Meaning |\n|---|---|"
        yield from new
        yield ""
    if again := [f"`{flags}`" for row, flags in rows.items() if row in seen]:
        yield f"{'And, as above' if new else 'As above'}: {', '.join(again)}.\n"
    seen.update(row for row in new if rows[row])
    for group in actions:
        if isinstance(group, _SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in group._choices_actions}
            for name, action in group.choices.items():
                yield f"### `{parser.prog} {name}`\n"
                yield from _describe_parser(action, seen, helps.get(name, ""))


def _describe_option(parser: ArgumentParser, action: Action) -> str:
    """The row of an option, or of a positional argument."""
    value = action.metavar or action.dest.upper()
    flags = ", ".join(action.option_strings) or str(value)
    shown = flags if action.nargs == 0 or not action.option_strings else f"{flags} {value}"
    meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
    return f"| `{shown.replace('|', ' or ')}` | {_escape(meaning)} |"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
