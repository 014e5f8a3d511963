"""What one seed decides: how much goes on at once, and how much of it goes wrong."""

from dataclasses import dataclass
from random import Random

SECONDS = (1.0, 31.0, 61.0, 200.0, 700.0, 4000.0, 90_000.0, 300_000.0)
"""How far the clock may jump: past a claim, an old claim, a lease, what was kept for a time, the horizon."""


@dataclass(frozen=True)
class FaultPlan:
    """Odds are from 0 to 1, for each question; `crowd` is the number of requests and walks.

    `named`: each payer gives all of its payments one name, so they are for one purchase.
    """

    stored: bool
    payments: int
    crowd: int
    network: float
    store: float
    course: float
    gone: float
    jump: float
    between: float
    named: bool = False


def draw_fault_plan(rng: Random) -> FaultPlan:
    large = rng.random() < 0.02
    payments = rng.randint(5, 25) if large else rng.choice((1, 1, 1, 2, 3))
    return FaultPlan(
        stored=rng.random() < 0.3,
        payments=payments,
        crowd=rng.randint(10, 50) if large else payments + rng.randint(1, 8),
        network=rng.choice((0.0, 0.05, 0.2, 0.5)),
        store=rng.choice((0.0, 0.0, 0.02, 0.1)),
        course=rng.choice((0.0, 0.1, 0.3)),
        gone=rng.choice((0.0, 0.05, 0.1)),
        jump=rng.choice((0.0, 0.05, 0.15)),
        between=rng.choice((0.0, 0.3, 0.9)),
    )
