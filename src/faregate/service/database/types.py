"""Column types and conversions that behave alike in PostgreSQL and SQLite.

Migrations use these types, so a type that was released never changes.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Dialect, Numeric, String
from sqlalchemy.types import TypeDecorator, TypeEngine

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Amount(TypeDecorator[int]):
    """Atomic units, an integer of up to 30 digits.

    SQLite's integers end at 19 digits, and beyond them it counts in floats. So there an amount is text: do
    not compare, order or sum it in SQL.
    """

    impl = Numeric(30, 0)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = String(30) if dialect.name == "sqlite" else Numeric(30, 0)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return str(value) if dialect.name == "sqlite" else Decimal(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


def code(length: int) -> TypeEngine[str]:
    """Build the type of an identifier, hash or address: text that is compared byte by byte.

    PostgreSQL would compare it by the database's locale, which is slower and orders ids otherwise than
    SQLite.
    """
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def sum_amounts(joined: str | None) -> int:
    """Add amounts that SQL joined with commas; None if there were none."""
    return sum(map(int, joined.split(","))) if joined else 0


def covers(
    funds: str | None, value: str, reserved: str | None, settled: str | None, settled_before: str
) -> bool:
    """Return whether funds cover a value beside what others spend: `faregate_covers` of SQLite.

    Others spend what is `reserved`, and what was `settled` beyond the sum before the funds were read.
    """
    spent = sum_amounts(reserved) + sum_amounts(settled) - int(settled_before)
    return funds is None or int(value) + spent <= int(funds)


def to_microseconds(moment: datetime) -> int:
    """Convert to microseconds since 1970 (UTC), the form of every time in the database."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
