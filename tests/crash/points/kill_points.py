"""Where a process dies. A point is named after the call it stands beside, as the process makes it.

`before` and `after` are this process's own view of a call; `in` is inside a write, when the store has the
statement and has not said that it is done; `batch` is a batch of the journal's writer: before it begins, in
the middle, and when it is done and nobody was answered; `acted` is the service's view: it acted, and its
answer is not on its way yet. A point may need a sale of some kind to be reached at all.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["shop", "sweep"]
Conditions = Literal["any", "pays", "settles later", "fails", "bounced", "pending"]
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
    conditions: Conditions = "any"


def _shop(*names: str, conditions: Conditions = "any") -> list[Point]:
    return [Point(name, Death("shop", name), conditions=conditions) for name in names]


def _second(role: Role, prefix: str, first: str, *names: str, conditions: Conditions = "pays") -> list[Point]:
    deaths = [(name, Death(role, name, stops=prefix.startswith("stopped"))) for name in names]
    return [Point(f"{prefix}/{name}", Death("shop", first), death, conditions) for name, death in deaths]


def _stopped(*names: str) -> list[Point]:
    return [Point(f"stopped/{name}", Death("shop", name, stops=True), conditions="pays") for name in names]


ALL: tuple[Point, ...] = (
    *_shop("claim:before", "claim:in", "claim:after"),
    *_shop("contracts:before", "contracts:acted"),
    *_shop("access:before", "access:acted", "access:after"),
    *_shop("abandon_claim:before", "abandon_claim:after", conditions="bounced"),
    *_shop("record_pending:before", "record_pending:after", conditions="pending"),
    *_shop("record_transaction:before", "record_transaction:in", "record_transaction:after"),
    *_shop("work:begin", "work:middle", "work:end"),
    *_shop("record_outcome:before", "record_outcome:in", "record_outcome:after"),
    *_shop("complete:before", "complete:acted", "complete:after"),
    *_shop("schedule_retry:before", "schedule_retry:after", conditions="settles later"),
    *_shop("record_final:before", "record_final:after", conditions="fails"),
    *_shop("record_settlement:before", "record_settlement:in", "record_settlement:after", conditions="pays"),
    *_shop("batch:begin", "batch:middle", "batch:answer"),
    *_shop("response:before", "response:head", "response:body", conditions="pays"),
    *_second("shop", "back", "work:middle", "claim:after", "record_outcome:after", "complete:acted"),
    *_second(
        "shop",
        "back",
        "record_outcome:after",
        "transaction:before",
        "transaction:acted",
        "record_settlement:after",
    ),
    *_second("shop", "back", "response:head", "response:body"),
    *_second(
        "sweep",
        "sweep",
        "work:middle",
        "record_outcome:before",
        "record_outcome:after",
        "record_final:before",
    ),
    *_second(
        "sweep", "sweep", "record_outcome:after", "lease_next:after", "transaction:acted", "complete:before"
    ),
    *_second(
        "sweep",
        "sweep",
        "record_outcome:after",
        "complete:acted",
        "record_settlement:before",
        "record_settlement:after",
    ),
    *_stopped(
        "claim:after", "record_transaction:before", "work:middle", "record_outcome:before", "complete:before"
    ),
    *_stopped("record_settlement:before"),
    *_second("sweep", "stopped/sweep", "work:middle", "record_outcome:before", "complete:before"),
    *_second(
        "sweep", "stopped/sweep", "record_outcome:after", "transaction:before", "record_settlement:before"
    ),
    Point(AT_RANDOM, Death("shop", AT_RANDOM)),
    Point(f"stopped/{AT_RANDOM}", Death("shop", AT_RANDOM, stops=True)),
)
BY_NAME = {point.name: point for point in ALL}
