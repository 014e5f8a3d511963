"""Decorators of a seller's own around a view."""

import functools
from typing import Any


def with_wraps(view: Any) -> Any:
    @functools.wraps(view)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return inner


def without_wraps(view: Any) -> Any:
    def inner(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return inner
