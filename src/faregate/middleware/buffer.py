"""Buffer a handler's response, and complete a response for the server. Pure."""

import re

from faregate.core.models import Header, Headers, Response
from faregate.errors import ResultTooLarge

# Servers refuse to send anything else. That must be known before the payment is completed: a result that no
# server sends would be paid for and lost.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class BufferedResponse:
    """The response of a handler so far. `too_large` is the error of a body that outgrew its limit."""

    def __init__(self) -> None:
        self.too_large: ResultTooLarge | None = None
        self._limit = 0
        self._start: tuple[int, Headers] | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def has_started(self) -> bool:
        return self._start is not None

    def start(self, status: int, headers: Headers, limit: int) -> None:
        """Begin a response with a body of at most `limit` bytes, in place of what was buffered before.

        `too_large` stays: what a framework answers in place of a result that was too large is not sold.
        Raises `ValueError` for a start that no server would send.
        """
        if status < 200:
            raise ValueError(f"{status} is not the status of a final response")
        self._limit = limit
        self._start = (status, tuple(map(_check_header, headers)))
        self._chunks.clear()
        self._size = 0

    def append(self, chunk: bytes) -> None:
        """Append a piece of the body. Raises `ResultTooLarge`."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._chunks.clear()
            self.too_large = ResultTooLarge(
                f"the result has more than {self._limit} bytes. "
                "To sell it, raise max_result_bytes: of this offer, or of the paywall"
            )
            raise self.too_large
        # Copied: a handler may send a view of memory that it writes to again.
        self._chunks.append(bytes(chunk))

    def build(self) -> Response:
        """Build the whole response. Raises `RuntimeError` where none was started."""
        if self._start is None:
            raise RuntimeError("the handler sent a body before the start of its response")
        return Response(*self._start, b"".join(self._chunks))


def _check_header(header: Header) -> Header:
    name, value = header[0], header[1].strip(" \t")
    if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ValueError(f"the handler's header {name!r} cannot be sent as it is")
    return name, value


def finalize(response: Response, method: str) -> tuple[Headers, bytes]:
    """Return headers and body as a server sends them: with the right length, and no body for HEAD, 204, 304.

    The length is counted anew, because servers trust it: one that is too small cuts a paid result off.
    """
    head = method == "HEAD"
    bodiless = head or response.status in (204, 304)
    headers = tuple(pair for pair in response.headers if head or pair[0].lower() != "content-length")
    if bodiless:
        return headers, b""
    return (*headers, ("Content-Length", str(len(response.body)))), response.body
