"""Find what a function looks up, if it does nothing else. Pure."""

from collections.abc import Callable, Iterator
from dis import Instruction, get_instructions
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType
from typing import Any, cast

from faregate.checkout.wrapped_callables import get_closure

_MAX_VALUES = 500
_EFFECTS = (
    *("STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF", "DELETE_"),
    *("IMPORT_", "GET_AWAITABLE", "RAISE_", "SETUP_WITH", "BEFORE_", "LOAD_SPECIAL"),
)
"""The beginnings of the names of instructions that do more than look up."""
_GET: Any = vars(dict)["get"]
_MISSING = object()


def find_looked_up(function: Any, is_wanted: Callable[[Any], bool]) -> Any:
    """Find the first wanted value that a function names, if it only looks values up; None otherwise.

    Followed are globals, the variables it was made with, containers, attributes, and functions of the same
    kind that it calls. A call of anything else may do more.
    """
    waiting, seen, wanted = [(function, cast(Any, None))], dict[int, Any](), None
    while waiting:
        value, owner = waiting.pop(0)
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if len(seen) > _MAX_VALUES:
            return None
        called, owner = (value.__func__, value.__self__) if isinstance(value, MethodType) else (value, owner)
        if value is not function and is_wanted(value):
            wanted = value if wanted is None else wanted
        elif isinstance(called, FunctionType):
            named = _list_named(called, owner, is_wanted)
            if named is None:
                return None
            waiting += named
        else:
            waiting += ((held, None) for held in _list_contents(value))
    return wanted


def _list_contents(container: Any) -> list[Any]:
    if issubclass(type(container), dict):
        return list(cast("dict[Any, Any]", container).values())
    is_list = issubclass(type(container), (list, tuple, set, frozenset))
    return list(container) if is_list else []


def _list_named(
    function: FunctionType, owner: Any, is_wanted: Callable[[Any], bool]
) -> list[tuple[Any, Any]] | None:
    """List the values that a function names, each with the object it is an attribute of.

    None if the function does more than look values up. `owner` is the object of a method.
    """
    instructions = [step for code in _list_codes(function.__code__) for step in get_instructions(code)]
    if any(step.opname.startswith(_EFFECTS) for step in instructions):
        return None
    values = {**function.__globals__, **get_closure(function)}
    globals_named = _list_names(instructions, _GLOBALS)
    held = [(values[name], None) for name in globals_named if name in values]
    owners = [value for value, _ in held if not is_wanted(value)] + ([] if owner is None else [owner])
    attributes = [_list_attributes(owners, name) for name in _list_names(instructions, _ATTRIBUTES)]
    named = [*held, *(pair for pairs in attributes for pair in pairs)]
    if any(step.opname.startswith("CALL") and "INTRINSIC" not in step.opname for step in instructions):
        takes_others = function.__code__.co_argcount > (owner is not None)
        if takes_others or len(held) < len(globals_named) or not all(attributes):
            return None
        if not all(_is_harmless(value, is_wanted) for value, _ in named):
            return None
    return [pair for pair in named if not _is_of_fastapi(pair[0])]


_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")


def _list_names(instructions: list[Instruction], operations: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(step.argval for step in instructions if step.opname in operations))


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


def _list_attributes(owners: list[Any], name: str) -> list[tuple[Any, Any]]:
    attributes = [(getattr_static(owner, name, _MISSING), owner) for owner in owners]
    return [
        (cast(Any, value).__func__ if isinstance(value, staticmethod | classmethod) else value, owner)
        for value, owner in attributes
        if value is not _MISSING
    ]


def _is_harmless(value: Any, is_wanted: Callable[[Any], bool]) -> bool:
    """Whether a call of this value does nothing, or is looked into."""
    is_function = isinstance(value, FunctionType | MethodType)
    return not callable(value) or is_function or value is _GET or _is_of_fastapi(value) or is_wanted(value)


def _is_of_fastapi(value: Any) -> bool:
    """Whether it is a name of FastAPI itself, such as `Depends`, which makes a declaration."""
    return isinstance(value, FunctionType | type) and value.__module__.startswith("fastapi.")
