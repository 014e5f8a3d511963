"""Buffer a handler's response, and complete a response for the server. Pure."""

import re

from faregate.core.models import Header, Headers, Response
from faregate.errors import ResultTooLarge

# What servers send. The rest they refuse, and that must be known before anybody pays for it.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Held:
    """The start of a response, and its body so far."""

    def __init__(self) -> None:
        self._limit = 0
        self.too_large: ResultTooLarge | None = None
        self._start: tuple[int, Headers] | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def has_begun(self) -> bool:
        return self._start is not None

    def begin(self, status: int, headers: Headers, limit: int) -> None:
        """A second start takes the place of the first. `limit` bounds the body, in bytes.

        Raises `ValueError` for a start that no server would send.
        """
        if status < 200:
            raise ValueError(f"{status} is not the status of a whole response")
        self._limit = limit
        self._start = (status, tuple(map(_sound, headers)))
        self._chunks.clear()
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Keep a piece of the body. Raises `ResultTooLarge`."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._chunks.clear()
            self.too_large = ResultTooLarge(
                f"the result has more than {self._limit} bytes. "
                "To sell it, raise max_result_bytes: of this offer, or of the paywall"
            )
            raise self.too_large
        self._chunks.append(bytes(chunk))  # a view may be written to again

    def whole(self) -> Response:
        if self._start is None:
            raise RuntimeError("the handler sent a body before the start of its response")
        return Response(*self._start, b"".join(self._chunks))


def _sound(header: Header) -> Header:
    name, value = header[0], header[1].strip(" \t")
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"the handler's header {name!r} cannot be sent as it is")
    return name, value


def sendable(response: Response, method: str) -> tuple[Headers, bytes]:
    """Headers and body as a server sends them: the length counted anew, no body where there is none."""
    head = method == "HEAD"
    bodiless = head or response.status in (204, 304)
    headers = tuple(pair for pair in response.headers if head or pair[0].lower() != "content-length")
    if bodiless:
        return headers, b""
    return (*headers, ("Content-Length", str(len(response.body)))), response.body
