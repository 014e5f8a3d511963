"""How large a small model is, and how its flows begin."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from faregate.core.interfaces import Flow
from faregate.core.models import PaidRequest
from faregate.x402.payment_identifier import IdentifierUse
from tests.core.flow_script import sale
from tests.core.steps import serve, sweep
from tests.model.backend import SLOWLY
from tests.support.encodings import encode_payment

FIRST, ANEW = encode_payment(), encode_payment(indent=1)
"""One payment in two encodings: two proofs."""


@dataclass(frozen=True)
class Scope:
    """`proofs` has one request each; `sweeps` are walks, one after the other.

    `courses` are what may become of the payment by itself. `far`: the clock may jump past everything.
    """

    name: str
    proofs: tuple[str, ...] = (FIRST, FIRST)
    sweeps: int = 1
    crashes: int = 2
    store_faults: int = 0
    courses: tuple[str, ...] = (SLOWLY,)
    far: bool = False


@cache
def _sale(proof: str) -> PaidRequest:
    return replace(sale(proof, resumes_open_payments=True), identifier_use=IdentifierUse.OPTIONAL)


@dataclass(frozen=True)
class Flows:
    """How a request and a walk begin. What is broken on purpose begins them otherwise."""

    request: Callable[[str], Flow[Any]] = lambda proof: serve(_sale(proof))
    sweep: Callable[[], Flow[Any]] = sweep
