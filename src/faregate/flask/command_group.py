"""`flask faregate`: the group of commands, which is loaded at first use. No server needs them."""

from typing import Final

import click
from flask.cli import AppGroup


class _Commands(AppGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        from faregate.flask.cli import build_commands

        for command in () if self.commands else build_commands():
            self.add_command(command)


COMMANDS: Final = _Commands("faregate", help="Show what this app sells, and finish its payments.")
"""Also an entry point of the package: it says why an app does not start, or that it has no paywall."""
