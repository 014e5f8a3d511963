"""`frozen`: a data class that type checkers keep anybody from changing, and that costs little to make.

A paid request makes about fifty small values. `@dataclass(frozen=True)` writes each of their fields through
`object.__setattr__`, which takes three times as long as plain assignment: an eighth of the whole request.

And `dataclass` compiles each method of each class, which takes half a millisecond at import, for a hundred of
them. So only `__init__` is compiled here, and the other methods are closures.
"""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a data class with slots and a hash. A change is refused by type checkers only, not at run time."""
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    compared = [attribute.name for attribute in fields(made) if attribute.compare]
    shown = [attribute.name for attribute in fields(made) if attribute.repr]
    read = attrgetter(*compared) if compared else _read_nothing

    def is_equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        return read(self) == read(other) if type(other) is type(self) else NotImplemented

    def compute_hash(self: Any) -> int:
        return hash(read(self))

    def show(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for name, method in (("__eq__", is_equal), ("__hash__", compute_hash), ("__repr__", show)):
        # Python sets `__hash__` to None in a class that defines `__eq__`.
        if vars(cls).get(name) is None:
            setattr(made, name, method)
    return cast("type[T]", made)


def _read_nothing(_one: object) -> tuple[()]:
    return ()
