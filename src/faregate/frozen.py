"""`frozen`: a data class that type checkers keep anybody from changing, and that costs little to make.

A paid request makes about fifty small values. `@dataclass(frozen=True)` writes each of their fields through
`object.__setattr__`, which takes three times as long as plain assignment: an eighth of the whole request.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a data class with slots and a hash. Nothing stops a change at run time: do not make one."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
