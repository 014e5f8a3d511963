"""Find where Flask-Caching stands on a view: above its price, or below it with a key that others have too."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from faregate.checkout.handlers import find_offers
from faregate.checkout.wrapped_callables import get_closure, walk


def is_cached_above(parts: tuple[Any, ...]) -> bool:
    """Whether a cache wraps a price: on one function, or around a class whose method has the price."""
    if any(_is_cache(layer) and find_offers(layer) for part in parts for layer in walk(part)):
        return True
    view, *called = parts
    return any(find_offers(part) for part in called) and any(map(_is_cache, walk(view)))


def find_keys(parts: Iterable[Any], config: Mapping[str, Any]) -> frozenset[str]:
    """The keys under which caches on a view keep its result. `%s` stands for the path.

    Without those that cannot be read, that a function makes, or that have the hash of the view's source.
    """
    return frozenset(
        key
        for part in parts
        for layer in walk(part)
        if _is_cache(layer) and (key := _read_key(layer, config)) is not None
    )


def _is_cache(part: Any) -> bool:
    """Whether it is made by Flask-Caching, which marks what it makes with what that wraps."""
    attributes = part.__dict__ if isinstance(part, FunctionType) else {}
    return "uncached" in attributes and attributes["uncached"] is attributes.get("__wrapped__")


def _read_key(cached: Any, config: Mapping[str, Any]) -> str | None:
    variables = dict(_list_variables(cached))
    key = variables.get("key_prefix")
    if not isinstance(key, str) or callable(variables.get("make_cache_key")):
        return None  # of `memoize`, which has the function's name in its key; or one that the seller makes
    by_source = variables.get("source_check")
    return None if (config.get("CACHE_SOURCE_CHECK") if by_source is None else by_source) else key


def _list_variables(cached: Any) -> Iterator[tuple[str, object]]:
    """What a cache was made with: its own variables, and those of the functions that make its key."""
    waiting: list[Callable[..., Any]] = [cached, cached.__dict__.get("make_cache_key")]
    for function in waiting:
        for name, value in get_closure(function).items():
            yield name, value
            if (
                name.startswith("_make_cache_key")
                and value not in waiting
                and isinstance(value, FunctionType)
            ):
                waiting.append(value)
