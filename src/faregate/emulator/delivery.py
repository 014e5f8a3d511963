"""An answer on its way: what the service says, and how it travels. Pure; the mounts act it out."""

from dataclasses import dataclass
from typing import Literal

from faregate.model import Response

Ending = Literal["whole", "silence", "reset", "cut"]
"""`silence`: nothing is ever sent; `reset`: the connection breaks at once; `cut`: it breaks in the body."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """`delay` is in seconds, before anything is sent."""

    response: Response
    delay: float = 0.0
    ending: Ending = "whole"
