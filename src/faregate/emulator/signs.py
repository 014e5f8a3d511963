"""How an answer says that it is the emulator's: one header, on every answer. Pure."""

from importlib.metadata import version
from typing import Final

from faregate.core.models import Header, Response

SIGN: Final[Header] = ("Faregate-Emulator", version("faregate"))


def signed(response: Response) -> Response:
    return Response(response.status, (*response.headers, SIGN), response.body)
