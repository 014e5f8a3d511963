"""Where a process dies. A point is named after the call it stands beside, as the process makes it.

`before` and `after` are this process's own view of a call; `in` is inside a write, when the store has the
statement and has not said that it is done; `batch` is a batch of the journal's writer: before it begins, in
the middle, and when it is done and nobody was answered; `acted` is the service's view: it acted, and its
answer is not on its way yet. A point may need a sale of some kind to be reached at all.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["seller", "sweep"]
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


def _seller(*names: str, conditions: Conditions = "any") -> list[Point]:
    return [Point(name, Death("seller", name), conditions=conditions) for name in names]


def _second(role: Role, prefix: str, first: str, *names: str, conditions: Conditions = "pays") -> list[Point]:
    deaths = [(name, Death(role, name, stops=prefix.startswith("stopped"))) for name in names]
    return [Point(f"{prefix}/{name}", Death("seller", first), death, conditions) for name, death in deaths]


def _stopped(*names: str) -> list[Point]:
    return [Point(f"stopped/{name}", Death("seller", name, stops=True), conditions="pays") for name in names]


ALL: tuple[Point, ...] = (
    *_seller("claim:before", "claim:in", "claim:after"),
    *_seller("contracts:before", "contracts:acted"),
    *_seller("access:before", "access:acted", "access:after"),
    *_seller("abandon_claim:before", "abandon_claim:after", conditions="bounced"),
    *_seller("record_pending:before", "record_pending:after", conditions="pending"),
    *_seller("record_transaction:before", "record_transaction:in", "record_transaction:after"),
    *_seller("work:begin", "work:middle", "work:end"),
    *_seller("record_outcome:before", "record_outcome:in", "record_outcome:after"),
    *_seller("complete:before", "complete:acted", "complete:after"),
    *_seller("schedule_retry:before", "schedule_retry:after", conditions="settles later"),
    *_seller("record_final:before", "record_final:after", conditions="fails"),
    *_seller(
        "record_settlement:before", "record_settlement:in", "record_settlement:after", conditions="pays"
    ),
    *_seller("batch:begin", "batch:middle", "batch:answer"),
    *_seller("response:before", "response:head", "response:body", conditions="pays"),
    *_second("seller", "back", "work:middle", "claim:after", "record_outcome:after", "complete:acted"),
    *_second(
        "seller",
        "back",
        "record_outcome:after",
        "transaction:before",
        "transaction:acted",
        "record_settlement:after",
    ),
    *_second("seller", "back", "response:head", "response:body"),
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
    Point(AT_RANDOM, Death("seller", AT_RANDOM)),
    Point(f"stopped/{AT_RANDOM}", Death("seller", AT_RANDOM, stops=True)),
)
BY_NAME = {point.name: point for point in ALL}
