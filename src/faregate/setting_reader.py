"""Declare settings, and read them from arguments, options, environment variables and files.

A class declares them. The fields of a TypedDict are annotated with `Annotated[type, Description(...)]`, and
those of a dataclass are made by `describe`. A message names a setting as the person wrote it: `timeout`,
`--port`, `FAREGATE_TIMEOUT`, or `port in service.toml`. No message repeats a text that may be a secret.

pydantic is not used here: see docs/contributing/decisions/0013-settings.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from faregate.errors import ConfigurationError

NameSetting = Callable[[str], str]
"""Gives the name of a setting, such as `public_url`, as the seller writes it."""
Check = Callable[[Any], str]
"""Returns what is wrong with a value, such as `must be a number above 0`; "" if nothing is."""
_TRUTHS: Final = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(
    ["0", "false", "no", "off"], False
)
_TYPES: Final[Mapping[Any, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    Decimal: (int, float, Decimal),
    Sequence: (list, tuple),
    tuple: (list, tuple),
}
"""The types that a value may have, by the declared one."""


@dataclass(frozen=True, slots=True)
class Description:
    """The documentation of a setting beside its name and its type, and a check of its values.

    `text` is Markdown for docs/settings.md, as is `shown`: the default, where it depends on something else.
    """

    text: str
    default: Any = None
    shown: str = ""
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a class that declares settings.

    `types` are those that a value may have, `choices` the texts that it may be; all if there are none.
    """

    name: str
    types: tuple[type, ...]
    choices: tuple[str, ...]
    description: Description

    @property
    def variable(self) -> str:
        return name_variable(self.name)

    @property
    def is_list(self) -> bool:
        return tuple in self.types and str not in self.types

    def read(self, value: object, typed_name: str) -> Any:
        """Check a value that has a type, such as an argument. Raises `ConfigurationError`."""
        # True is an int to Python, and a mistake as a number.
        is_stray_bool = isinstance(value, bool) and bool not in self.types
        if not isinstance(value, self.types) or is_stray_bool:
            expected = " or ".join(kind.__name__ for kind in self.types)
            raise ConfigurationError(f"{typed_name} must be {expected}, not {type(value).__name__}.")
        return self._check(Decimal(str(value)) if Decimal in self.types else value, typed_name)

    def parse(self, text: str, typed_name: str) -> Any:
        """Parse a value that is text, such as an environment variable. Raises `ConfigurationError`."""
        if self.is_list:
            return self._check(tuple(text.replace(",", " ").split()), typed_name)
        if str in self.types:
            return self._check(text, typed_name)
        parse, kind = _PARSERS[self.types[-1]]
        try:
            value = parse(text)
        except (KeyError, ValueError, InvalidOperation):
            raise ConfigurationError(f"{typed_name} must be {kind}, not {text!r}.") from None
        return self._check(value, typed_name)

    def _check(self, value: Any, typed_name: str) -> Any:
        if self.choices and value not in self.choices:
            raise ConfigurationError(f"{typed_name} must be {_join(self.choices)}, not {value!r}.")
        check = self.description.check
        if check is not None and (fault := check(value)):
            raise ConfigurationError(f"{typed_name} {fault}.")
        return tuple(value) if self.is_list else value


_PARSERS: Final[Mapping[type, tuple[Callable[[str], object], str]]] = {
    bool: (lambda text: _TRUTHS[text.lower()], "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    Decimal: (Decimal, "a number"),
}


def name_variable(name: str) -> str:
    """Name the environment variable of a setting of the paywall."""
    return f"FAREGATE_{name.upper()}"


def describe(text: str, default: Any = None, check: Check | None = None, *, in_repr: bool = True) -> Any:
    """Declare a setting as the field of a dataclass."""
    metadata = {"description": Description(text, default, check=check)}
    return field(default=default, repr=in_repr, metadata=metadata)


def read_declarations(declared: type) -> dict[str, Setting]:
    """Read the settings that a TypedDict or a dataclass declares, by name."""
    hints = get_type_hints(declared, include_extras=True)
    if is_dataclass(declared):
        declarations = fields(declared)
        return {
            entry.name: _build_setting(entry.name, hints[entry.name], **entry.metadata)
            for entry in declarations
        }
    return {name: _build_setting(name, *get_args(hint)) for name, hint in hints.items()}


def _build_setting(name: str, annotated: Any, description: Description) -> Setting:
    is_union = get_origin(annotated) not in (None, Literal, Sequence, tuple)
    alternatives = [kind for kind in get_args(annotated) if kind is not NoneType]
    types: list[type] = []
    choices: tuple[str, ...] = ()
    for kind in alternatives if is_union else [annotated]:
        if get_origin(kind) is Literal:
            choices, kind = get_args(kind), str
        types += _TYPES[get_origin(kind) or kind]
    return Setting(name, tuple(types), choices, description)


@dataclass(slots=True)
class GivenValues:
    """Values by setting, and how each was spelt by the person who gave it. The first source wins."""

    settings: Mapping[str, Setting]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    typed_names: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, name: str, value: object, typed_name: str) -> None:
        """Add a value that has a type, unless there is one already. Raises `ConfigurationError`."""
        if name not in self.values:
            self.values[name] = self.settings[name].read(value, typed_name)
            self.typed_names[name] = typed_name

    def add_text(self, name: str, text: str, typed_name: str) -> None:
        """Add a value that is text, unless there is one already. Raises `ConfigurationError`."""
        if name not in self.values:
            self.values[name] = self.settings[name].parse(text, typed_name)
            self.typed_names[name] = typed_name


# Checks


def above_zero(value: float) -> str:
    return "" if 0 < value < math.inf else "must be a number above 0"


def between(least: float, most: float) -> Check:
    """Make a check of the bounds of a number, which may have either of them."""

    def check(value: float | Decimal) -> str:
        # A Decimal that is not a number has no order.
        is_within = math.isfinite(value) and least <= value <= most
        return "" if is_within else f"must be between {least} and {most}, not {value}"

    return check


def _join(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
