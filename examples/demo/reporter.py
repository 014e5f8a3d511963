"""Print the scenario on a terminal, and check each thing that it says."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .payer import Answer

_WIDEST = 100


class Untrue(Exception):
    """Something was told that is not so."""


class Reporter:
    """Says it, step by step. `claim` is the only judge: what is not as printed ends the scenario."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps = 0
        self.claims = 0

    def title(self, name: str, subtitle: str) -> None:
        self._console.print()
        self._console.print(Text.assemble(("  " + name, "bold"), ("  ·  ", "dim"), (subtitle, "dim")))

    def step(self, title: str, why: str) -> None:
        self._steps += 1
        self._console.print()
        self._console.print(Text.assemble((f" {self._steps:>2}  ", "bold cyan"), (title, "bold")))
        self._block(Text(why, style="dim"), indent=5)

    def sent(self, request: str, note: str = "") -> None:
        self._console.print()
        self._block(Text.assemble(("→ ", "cyan"), request, (f"   {note}" if note else "", "dim")), indent=5)

    def came(self, answer: Answer, note: str = "") -> None:
        note = note or str(answer.data.get("code") or answer.data.get("status") or "")
        style = "green" if answer.status < 300 and answer.status != 202 else "yellow"
        words = f"{answer.status} {HTTPStatus(answer.status).phrase}"
        tail = f"   {note}" if note else ""
        took = f"   {answer.seconds * 1000:.0f} ms"
        self._block(Text.assemble(("← ", "cyan"), (words, style), tail, (took, "dim")), indent=5)

    def facts(self, rows: Iterable[tuple[str, str]], heading: str = "") -> None:
        """Names and values, one pair a line."""
        if heading:
            self._block(Text(heading, style="dim"), indent=7)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(name, value)
        self._block(grid, indent=7)

    def part(self, name: str, address: str, note: str) -> None:
        """Somebody who plays, and where."""
        self._block(Text.assemble((f"{name:<13}", "dim"), address, (f"   {note}", "dim")), indent=7)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], right: str = "") -> None:
        """A plain table; the column named `right` holds numbers."""
        made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        for column in columns:
            made.add_column(column, justify="right" if column == right else "left", no_wrap=True)
        for row in rows:
            made.add_row(*row)
        self._block(made, indent=7)

    def say(self, text: str) -> None:
        self._block(Text(text), indent=5)

    def claim(self, told: str, came: object, expected: object) -> None:
        """`told` holds if what came is what was expected; otherwise the scenario ends here."""
        if came != expected:
            self._block(Text.assemble(("✗ ", "bold red"), (told, "red")), indent=5)
            self.facts([("expected", repr(expected)), ("came", repr(came))])
            raise Untrue(told)
        self.claims += 1
        self._block(Text.assemble(("✓ ", "green"), told), indent=5)

    def end(self, verdict: str, *, well: bool) -> None:
        self._console.print()
        self._console.print(
            Text.assemble(("  ✓  " if well else "  ✗  ", _mood(well)), (verdict, _mood(well)))
        )

    def _block(self, what: Text | Table, indent: int) -> None:
        width = min(self._console.width, _WIDEST)
        self._console.print(Padding(what, (0, 0, 0, indent), expand=False), width=width)


def _mood(well: bool) -> str:
    return "bold green" if well else "bold red"


def money(atomic: int, asset: str = "USDC") -> str:
    """Atomic units of a six-decimal asset as people write them."""
    whole, rest = divmod(atomic, 10**6)
    digits = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{whole}.{digits} {asset}"


def short(value: str) -> str:
    """An id or an address, recognizable."""
    return f"{value[:10]}…{value[-6:]}"
