"""Watch the calls of the rules to their store and payments: tests delay, count, change or end them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from faregate.rules.dependencies import Dependencies


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a method of the store or of the payments. `perform` makes it."""

    name: str
    function: Callable[..., Any]
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] | None = None

    def perform(self) -> Any:
        return self.function(*self.positional, **(self.named or {}))


Around = Callable[[Call], Any]
"""Is given each call, and returns what the rule gets; it makes the call by `perform`, or does not."""


class _Watched:
    """Has what `target` has; its methods are called by `around`."""

    def __init__(self, target: object, around: Around) -> None:
        self._target, self._around = target, around

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        return lambda *positional, **named: self._around(Call(name, value, positional, named))


def watch(deps: Dependencies, around: Around) -> Dependencies:
    """Have `around` make the calls of the rules to this deps."""
    return replace(
        deps,
        store=cast(Any, _Watched(deps.store, around)),
        payments=cast(Any, _Watched(deps.payments, around)),
        settle=lambda *given: around(Call("settle", deps.settle, given)),
        wait=lambda *given: around(Call("wait", deps.wait, given)),
    )


class Killed(Exception):
    """The process died here: nothing after it runs, not even a `finally` that writes."""


def count_moments(dies_at: int | None) -> tuple[Around, Callable[[], int]]:
    """Make what raises `Killed` before (even) or after (odd) a call, and what counts the moments so far."""
    moment = 0

    def pass_moment() -> None:
        nonlocal moment
        if moment == dies_at:
            raise Killed
        moment += 1

    def around(call: Call) -> Any:
        pass_moment()
        answer = call.perform()
        pass_moment()
        return answer

    return around, lambda: moment
