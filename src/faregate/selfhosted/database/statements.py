"""Statements of a sale: built with SQLAlchemy, compiled once, executed by the driver.

A sale makes eight of them. SQLAlchemy takes 0.2 ms of the processor for each, the driver an eighth of that:
so it is left out where sales are many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Dialect, Insert, Integer, LargeBinary, String

from faregate.selfhosted.database.types import Amount

Values = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a statement in one dialect, and what its parameters and results are called."""

    sql: str
    parameters: tuple[str, ...]
    """Their names, in the order of their places in the text."""
    amounts: tuple[int, ...]
    """The places of amounts among them."""
    constants: Row
    """The parameters whose values are part of the statement."""
    columns: tuple[tuple[str, Any], ...]
    """The names of the results, each with its type."""

    def order(self, values: Values) -> list[Any]:
        """Return the values of the parameters in their order."""
        given = {**self.constants, **values}
        return [given[name] for name in self.parameters]


class Statement:
    """A statement with named parameters. Its columns are integers, text, bytes and amounts: no other type.

    `build` is the statement, or what makes it for a dialect of this name.
    """

    def __init__(self, build: Any) -> None:
        self._build: Final = build
        self._compiled: dict[str, Compiled] = {}

    def compile(self, dialect: Dialect) -> Compiled:
        """Compile it for this dialect, once. The dialect numbers its parameters."""
        known = self._compiled.get(dialect.name)
        if known is None:
            known = self._compiled[dialect.name] = self._compile(dialect)
        return known

    def _compile(self, dialect: Dialect) -> Compiled:
        statement: Any = self._build(dialect.name) if callable(self._build) else self._build
        # Of an INSERT all columns would be parameters.
        keys: list[str] | None = [] if isinstance(statement, Insert) else None
        text: Any = statement.compile(dialect=dialect, column_keys=keys)
        returned: Any = statement.exported_columns
        columns = tuple((name, column.type) for name, column in returned.items())
        for name, kind in columns:
            if not isinstance(kind, Integer | String | LargeBinary | Amount):
                raise TypeError(f"{name} is of a type that statements of sales do not read: {kind}")
        names = tuple(text.positiontup)
        amounts = [place for place, name in enumerate(names) if isinstance(text.binds[name].type, Amount)]
        return Compiled(str(text), names, tuple(amounts), dict(text.params), columns)
