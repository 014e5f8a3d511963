"""Look through decorators: find what a callable calls. Pure."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import CO_COROUTINE, getattr_static, iscoroutinefunction
from types import FunctionType, MethodType
from typing import Any, cast


def walk(outermost: object, *, through_self: bool = False) -> Iterator[Any]:
    """Every callable that this one may call, each once, the outermost first.

    Follows `functools.wraps`, partials, bound methods, objects that are called, and what a function was
    made with: a decorator keeps what it wraps in a variable of its own. Classes are not looked into, nor
    what a function only speaks of, defined beside it. With `through_self`, also follows the one function
    that the object of a bound method keeps: such an object is a decorator whose method is the endpoint.
    """
    seen: dict[int, object] = {}
    waiting = [outermost]
    while waiting:
        current = peel(waiting.pop(0))
        kind = type(current)
        if id(current) in seen or not callable(current) or issubclass(kind, type) or is_proxy(kind):
            continue
        seen[id(current)] = current
        yield current
        waiting.extend(_inside(current, through_self))


def _inside(outer: object, through_self: bool) -> list[object]:
    kind = type(outer)
    if issubclass(kind, partial):
        whole = cast("partial[Any]", outer)
        return [whole.func, *_flatten(whole.args), *_flatten(whole.keywords.values())]
    if isinstance(outer, MethodType):
        return [outer.__func__, *(_find_kept(outer.__self__) if through_self else ())]
    attributes: dict[str, object] = getattr(outer, "__dict__", {})
    if isinstance(outer, FunctionType):
        captured = [
            value for name, value in get_closure(outer).items() if not _is_neighbour(outer, name, value)
        ]
        defaults: list[object] = [*(outer.__defaults__ or ()), *(outer.__kwdefaults__ or {}).values()]
        return [attributes.get("__wrapped__"), *_flatten(captured), *_flatten(defaults)]
    # An object that is called, as a decorator that is a class.
    return [*attributes.values(), getattr(kind, "__call__", None)]  # noqa: B004


def _find_kept(instance: object) -> list[object]:
    """The one function that an object keeps: of several it is not a wrapper, but a collection of views."""
    attributes: dict[str, Any] = {} if isinstance(instance, type) else getattr(instance, "__dict__", {})
    function_names = [
        name for name, value in attributes.items() if isinstance(value, FunctionType | MethodType | partial)
    ]
    if len(function_names) != 1:
        return []
    only = attributes[function_names[0]]
    return [] if function_names[0].strip("_") == getattr(only, "__name__", "").strip("_") else [only]


def _is_neighbour(function: FunctionType, name: str, other: object) -> bool:
    """Whether a function knows another by its own name, from where both were defined: it is not a wrapper."""
    if type(other) is not FunctionType or other.__module__ != function.__module__:
        return False
    place, _, own_name = other.__qualname__.rpartition(".")
    return name == own_name and bool(place) and function.__qualname__.startswith(f"{place}.")


def is_proxy(kind: type) -> bool:
    """Whether objects of this type pretend to be another one, which may not be there now (`LocalProxy`)."""
    return any("__class__" in vars(base) for base in kind.__mro__[:-1])


def peel(value: object) -> object:
    """Return the function in a wrapper of `wrapt`; any other value as it is.

    Tracers such as ddtrace and decorators such as `deprecated` make them. A wrapper pretends to be its
    function, which is always there. A copy of `wrapt` in another package has the same names.
    """
    while is_proxy(type(value)):
        names = {base.__name__ for base in type(value).__mro__}
        if not names & _WRAPPERS or "LazyObjectProxy" in names:
            break
        value = cast(object, cast(Any, value).__wrapped__)
    return value


_WRAPPERS = {"_FunctionWrapperBase", "CallableObjectProxy"}


def _flatten(values: Iterable[object]) -> Iterator[object]:
    """The values, and those in lists and tuples of them."""
    for value in values:
        if issubclass(type(value), (list, tuple)):
            yield from cast("Iterable[object]", value)
        else:
            yield value


def get_closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables that a function was made with, by name; without those that have no value yet."""
    names: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells: Any = getattr(function, "__closure__", None) or ()
    variables: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables


def walk_chain(outermost: object, *, through_self: bool = False) -> Iterator[Any]:
    """List the callables that this one certainly wraps, outermost first. A decorator may hold others, too."""
    current: object = peel(outermost)
    seen: set[int] = set()
    while callable(current) and id(current) not in seen:
        seen.add(id(current))
        yield current
        inside = {id(inner): inner for inner in _inside(current, through_self) if callable(inner)}
        attributes = {} if is_proxy(type(current)) else getattr(current, "__dict__", {})
        wrapped = attributes.get("__wrapped__") or (next(iter(inside.values())) if len(inside) == 1 else None)
        current = peel(wrapped)


def get_module(function: Any) -> str:
    """The module whose code a function is, whatever it wraps: `__module__` is copied. "" for others."""
    return str(function.__globals__.get("__name__", "")) if isinstance(function, FunctionType) else ""


def is_async(called: Any) -> bool:
    """Whether what this callable returns is awaited, through partials and objects that are called."""
    while isinstance(called, partial):
        called = called.func
    return iscoroutinefunction(called) or iscoroutinefunction(getattr_static(called, "__call__", None))


def mark_as_coroutine_function(function: Any) -> Any:
    """Copy a plain function that returns a coroutine; `inspect.iscoroutinefunction` says True of the copy.

    `inspect.markcoroutinefunction` is of Python 3.12, and `functools.wraps` copies its mark to wrappers that
    return no coroutine.
    """
    code = function.__code__.replace(co_flags=function.__code__.co_flags | CO_COROUTINE)
    copy = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    for name in ("__annotations__", "__doc__", "__kwdefaults__", "__module__", "__qualname__"):
        setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy
