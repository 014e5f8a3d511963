"""Who runs, and what is asked of them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contestant:
    """One app under one uvicorn worker. `takes` says whose proofs it accepts, `transport` is faregate's."""

    name: str
    app: str
    takes: str = "any"
    transport: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request. `calls` is how many calls to the upstream one request must cost, by contestant."""

    name: str
    title: str
    path: str
    paid: bool
    status: int
    calls: Mapping[Contestant, int]
    payers: tuple[int, ...]


BARE = Contestant("bare app", "bare")
FLOOR = Contestant("two calls by hand", "by_hand")
FAST = Contestant("faregate, pyreqwest", "by_faregate", transport="pyreqwest")
PLAIN = Contestant("faregate, h11", "by_faregate", transport="h11")
X402 = Contestant("x402 middleware", "by_x402", takes="x402")

CASES = (
    Case(
        "paid",
        "Paid requests",
        "/report",
        paid=True,
        status=200,
        calls={BARE: 0, FLOOR: 2, FAST: 2, PLAIN: 2, X402: 2},
        payers=(1, 16, 64),
    ),
    Case(
        "open",
        "A route that is not for sale",
        "/health",
        paid=False,
        status=200,
        calls={BARE: 0, FLOOR: 0, FAST: 0, X402: 0},
        payers=(16,),
    ),
    # x402 makes its 402 by itself; the Merchant API is asked for each one.
    Case(
        "unpaid",
        "A paid route without a payment (402)",
        "/report",
        paid=False,
        status=402,
        calls={FLOOR: 1, FAST: 1, PLAIN: 1, X402: 0},
        payers=(16,),
    ),
)
