"""A response together with how it travels. Mounts and transports act it out."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, Literal

from faregate.core.models import Header, Response

Ending = Literal["whole", "silence", "reset", "cut"]
"""`silence`: nothing is ever sent; `reset`: the connection breaks at once; `cut`: it ends in the body."""

NO_RESPONSE: Final = Response(0)
"""Of a call that never reached the service. Only silence and a reset are delivered with it."""

CLOSING_EXTENSION: Final = "faregate.closing"
"""The key of an extension of the scope, by `server.py`: a function that says whether it is about to end."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A response and how it travels. `delay` is in seconds, before anything is sent."""

    response: Response
    delay: float = 0.0
    ending: Ending = "whole"


MARKER_HEADER: Final[Header] = ("Faregate-Emulator", version("faregate"))


def add_marker(response: Response) -> Response:
    return Response(response.status, (*response.headers, MARKER_HEADER), response.body)
