"""Statements of a sale: built with SQLAlchemy, compiled once, executed by the driver.

A sale makes about ten of them. SQLAlchemy takes 0.2 ms of the processor for each, the driver an eighth of
that, so it is left out where sales are many.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Dialect, Insert

from faregate.selfhosted.database.types import Amount

Values = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a statement in one dialect, and what its parameters and results are called."""

    sql: str
    constants: Row
    positions: Sequence[str] | None
    """The parameters in their order; None where the driver finds them by name."""
    amounts: tuple[str, ...]
    """Those parameters that are amounts."""
    columns: tuple[str, ...]
    returned_amounts: tuple[str, ...]

    def bind(self, values: Values, convert: Callable[[int], Any]) -> Any:
        """Build what the driver is given."""
        given = {**self.constants, **values}
        for name in self.amounts:
            amount = given[name]
            given[name] = None if amount is None else convert(amount)
        return given if self.positions is None else tuple(given[name] for name in self.positions)

    def read(self, row: Sequence[Any]) -> Row:
        """Name the columns of a result."""
        found = dict(zip(self.columns, row, strict=True))
        for name in self.returned_amounts:
            found[name] = int(found[name])
        return found


class Statement:
    """A statement with named parameters. Its columns are integers, text, bytes and amounts: no other type.

    `build` is the statement, or what makes it for a dialect of this name.
    """

    def __init__(self, build: Any) -> None:
        self._build: Final = build
        self._compiled: dict[str, Compiled] = {}

    def compile(self, dialect: Dialect) -> Compiled:
        """Compile it for this dialect, once."""
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
        return Compiled(
            sql=str(text),
            constants=dict(text.params),
            positions=text.positiontup,
            amounts=tuple(name for name, bind in text.binds.items() if isinstance(bind.type, Amount)),
            columns=tuple(returned.keys()),
            returned_amounts=tuple(
                name for name, column in returned.items() if isinstance(column.type, Amount)
            ),
        )
