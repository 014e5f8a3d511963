"""The product with one of its rules taken out, in a process of the shop: the campaign must notice each."""

from collections.abc import Callable


def break_it(name: str) -> None:
    """In this process, from now on; an empty name breaks nothing."""
    if name:
        VARIANTS[name]()


VARIANTS: dict[str, Callable[[], None]] = {}
