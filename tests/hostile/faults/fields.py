"""Replies that say the right things, but for one of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from faregate.core.models import Response
from tests.hostile.faults import BASES, ONLY_AFTER, twisted
from tests.hostile.service import NamedFault
from tests.merchant.samples import TAIL, changed
from tests.support.replies import with_body

OTHER = f"txn_{TAIL[::-1][:12]}7cde89ab{TAIL[:12]}"
"""Well formed, and nobody's."""
GONE: Any = ...
JUNK: tuple[Any, ...] = (GONE, None, 0, 1.5, True, [], {}, ["x"], "", "x", "\x00", "9" * 999)
NEVER: tuple[Any, ...] = (GONE, [])
"""What no field of a receipt may be; nobody judges it, for the payment is known without."""
SOME: tuple[Any, ...] = (GONE, None, 0, "x", [])


def field(path: str, values: Iterable[Any], bases: tuple[str, ...] = tuple(BASES)) -> Iterator[NamedFault]:
    """The field at a dotted path is one of these instead, or gone."""
    for value in values:
        shown = "gone" if value is GONE else brief(value)
        yield from twisted(f"{path} is {shown}", with_body(_setting(path, value)), bases)


def brief(value: object) -> str:
    """For a name: no two of the values above are alike in it."""
    shown = repr(value)
    return shown if len(shown) <= 44 else f"{shown[:8]}({len(shown)})"


def odd(path: str, values: Iterable[Any]) -> Iterator[NamedFault]:
    """Not what the contract says, and harmless: the reply proves what it must all the same."""
    return field(path, values, ONLY_AFTER)


def _setting(path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    above = path.rpartition(".")[0]

    def change(body: dict[str, Any]) -> dict[str, Any]:
        fits = has(body, path) if value is GONE else not above or has(body, f"{above}.")
        return changed(body, path, value) if fits else body

    return change


def has(body: Any, path: str) -> bool:
    """Whether the field is there; of a path that ends with a dot, whether it is an object."""
    name, dot, rest = path.partition(".")
    if not name:
        return isinstance(body, dict)
    return isinstance(body, dict) and name in body and (not dot or has(body[name], rest))


def paths(body: dict[str, Any], above: str = "") -> Iterator[str]:
    """Every field of an object, and of the objects in it."""
    for name, value in body.items():
        yield above + name
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.")


def answering(name: str, reply: Response, bases: tuple[str, ...] = tuple(BASES)) -> Iterator[NamedFault]:
    """This, whatever was asked: before the service acted, and after."""
    return twisted(name, lambda _: reply, bases)
