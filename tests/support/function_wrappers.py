"""Wrappers as the package `wrapt` makes them, under its names."""

from typing import Any

_wrapped: dict[int, Any] = {}
"""What each wrapper wraps, by its id. Those of `wrapt` are written in C, and have no attributes for it."""


class ObjectProxy:
    """Pretends to be what it wraps."""

    def __init__(self, wrapped: Any) -> None:
        _wrapped[id(self)] = wrapped

    @property
    def __wrapped__(self) -> Any:
        return _wrapped[id(self)]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__wrapped__.__class__

    def __getattribute__(self, name: str) -> Any:
        if name in ("__wrapped__", "__class__"):
            return object.__getattribute__(self, name)
        return getattr(self.__wrapped__, name)


class _FunctionWrapperBase(ObjectProxy):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return FunctionWrapper(self.__wrapped__.__get__(instance, owner))


class FunctionWrapper(_FunctionWrapperBase):
    pass
