"""What happens in one trial, drawn from its seed: the same trial has the same plan for ever."""

import random
from dataclasses import dataclass
from typing import Any

from tests.crash.points.faults import NETWORK, OF_COMPLETE, SERVICE
from tests.crash.points.kill_points import AT_RANDOM, BY_NAME, Conditions, Point

Settlement = dict[str, Any]
OPERATIONS = ("contracts", "access", "complete", "transaction")
_LATER: tuple[Settlement, ...] = (
    {"after_reads": 1},
    {"after_reads": 2},
    {"after_seconds": 0.1},
    {"after_seconds": 0.3, "via": "reconciling"},
)
_NEVER: tuple[Settlement, ...] = (
    {"after_reads": 0, "to": "failed"},
    {"after_reads": 1, "to": "failed"},
    {"after_seconds": 0.2, "to": "failed"},
)


@dataclass(frozen=True)
class Trial:
    kind: str
    point: str
    number: int
    seed: int = 0
    broken: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.point}:{self.number}"

    @property
    def where(self) -> Point:
        return BY_NAME[self.point]


@dataclass(frozen=True)
class Plan:
    """`faults` by operation. `returns` False: the payer comes back only when the sweep has no more to do.

    `asks_again`: who has the result wants it once more. `killed_at` and `killed_again_at` are seconds: into
    the first process's life, and into the recovery.
    """

    visit: int
    uses: int
    work: str
    settlement: Settlement | None
    faults: dict[str, list[str]]
    sweeps: str
    returns: bool
    asks_again: bool
    heals_at: float
    killed_at: float | None
    killed_again_at: float | None


def draw_plan(trial: Trial) -> Plan:
    """The plan of a trial."""
    chance = random.Random(f"{trial.seed} {trial.name}")
    point = trial.where
    work, settlement = _choose_sale(chance, point.conditions)
    faults = _faults(chance, point.conditions)
    visit = _visit(chance, point, faults)
    # Whoever else works in a process that is stopped would keep the store's locks from all others.
    stops = point.first.stops
    return Plan(
        visit=visit,
        uses=1 if stops else chance.choice((1, 1, 2, 3)),
        work=work,
        settlement=settlement,
        faults=faults,
        sweeps="beside" if stops else chance.choice(("beside", "beside", "in the seller", "late")),
        returns=point.conditions == "any" or chance.random() < 0.8,
        asks_again=chance.random() < 0.3,
        heals_at=chance.uniform(0.3, 1.2),
        killed_at=chance.uniform(0.0, 0.15) if point.first.at == AT_RANDOM else None,
        killed_again_at=chance.uniform(0.0, 0.7) if chance.random() < 0.25 else None,
    )


def _choose_sale(chance: random.Random, conditions: Conditions) -> tuple[str, Settlement | None]:
    match conditions:
        case "settles later":
            return "ok", chance.choice(_LATER)
        case "fails":
            return chance.choice((("fails", None), ("ok", chance.choice(_NEVER))))
        case "any":
            roll = chance.random()
            if roll < 0.18:
                return "ok", chance.choice(_LATER)
            if roll < 0.35:
                return _choose_sale(chance, "fails")
    return "ok", None


def _faults(chance: random.Random, conditions: Conditions) -> dict[str, list[str]]:
    """Half of the trials have none beside those that their sale needs."""
    faults: dict[str, list[str]] = {operation: [] for operation in OPERATIONS}
    if conditions == "pending":
        faults["access"] = ["pending"]
    elif conditions == "bounced":
        faults["access"] = chance.choice((["500 before"], ["500 after"], ["429"], ["garbage"], ["half"]))
    if chance.random() < 0.5:
        for _ in range(chance.choice((1, 1, 2, 3))):
            operation = chance.choice(OPERATIONS)
            among = {**NETWORK, **SERVICE, **(OF_COMPLETE if operation == "complete" else {})}
            faults[operation].append(chance.choice(list(among)))
    return faults


def _visit(chance: random.Random, point: Point, faults: dict[str, list[str]]) -> int:
    """The second call of its kind now and then, and then the first is of no use."""
    operation = point.first.at.partition(":")[0]
    if operation == "batch":
        return chance.randint(1, 4)  # the writes of a sale
    if point.second is not None or chance.random() > 0.25:
        return 1
    if operation not in ("access", "complete"):
        return 1
    faults[operation] = ["500 after"]
    return 2
