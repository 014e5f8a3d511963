"""Where a process dies. A point is named after the call it stands beside, as the process makes it.

`before` and `after` are this process's own view of a call; `in` is inside a write, when the store has the
statement and has not said that it is done; `acted` is the service's view: it acted, and its answer is not
on its way yet. A point may need a sale of some kind to be reached at all.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["shop", "sweep"]
Weather = Literal["any", "pays", "settles later", "fails", "bounced", "pending"]
"""The sale: settled at once, or later, or failed by the handler; access that was of no use, or pending."""


@dataclass(frozen=True)
class Death:
    """`stops`: not killed but stopped, and let go on when others have taken over."""

    role: Role
    at: str
    stops: bool = False

    @property
    def by_the_service(self) -> bool:
        return self.at.endswith(":acted")


AT_RANDOM = "at random"
"""Not at a point: at some instant."""


@dataclass(frozen=True)
class Point:
    """The first process dies where it says, then the second, if there is one."""

    name: str
    first: Death
    second: Death | None = None
    weather: Weather = "any"


def _shop(*names: str, weather: Weather = "any") -> list[Point]:
    return [Point(name, Death("shop", name), weather=weather) for name in names]


def _second(role: Role, prefix: str, first: str, *names: str, weather: Weather = "pays") -> list[Point]:
    deaths = [(name, Death(role, name, stops=prefix.startswith("stopped"))) for name in names]
    return [Point(f"{prefix}/{name}", Death("shop", first), death, weather) for name, death in deaths]


def _stopped(*names: str) -> list[Point]:
    return [Point(f"stopped/{name}", Death("shop", name, stops=True), weather="pays") for name in names]


ALL: tuple[Point, ...] = (
    *_shop("claim:before", "claim:in", "claim:after"),
    *_shop("rules:before", "rules:acted"),
    *_shop("access:before", "access:acted", "access:after"),
    *_shop("drop:before", "drop:after", weather="bounced"),
    *_shop("wait:before", "wait:after", weather="pending"),
    *_shop("start:before", "start:in", "start:after"),
    *_shop("work:begin", "work:middle", "work:end"),
    *_shop("decide:before", "decide:in", "decide:after"),
    *_shop("complete:before", "complete:acted", "complete:after"),
    *_shop("hold:before", "hold:after", weather="settles later"),
    *_shop("close:before", "close:after", weather="fails"),
    *_shop("release:before", "release:in", "release:after", weather="pays"),
    *_shop("response:before", "response:head", "response:body", weather="pays"),
    *_second("shop", "back", "work:middle", "claim:after", "decide:after", "complete:acted"),
    *_second("shop", "back", "decide:after", "standing:before", "standing:acted", "release:after"),
    *_second("shop", "back", "response:head", "response:body"),
    *_second("sweep", "sweep", "work:middle", "decide:before", "decide:after", "close:before"),
    *_second("sweep", "sweep", "decide:after", "due:after", "standing:acted", "complete:before"),
    *_second("sweep", "sweep", "decide:after", "complete:acted", "release:before", "release:after"),
    *_stopped("claim:after", "start:before", "work:middle", "decide:before", "complete:before"),
    *_stopped("release:before"),
    *_second("sweep", "stopped/sweep", "work:middle", "decide:before", "complete:before"),
    *_second("sweep", "stopped/sweep", "decide:after", "standing:before", "release:before"),
    Point(AT_RANDOM, Death("shop", AT_RANDOM)),
    Point(f"stopped/{AT_RANDOM}", Death("shop", AT_RANDOM, stops=True)),
)
BY_NAME = {point.name: point for point in ALL}
