"""Buffer a handler's response, and complete a response for the server. Pure.

A response is never streamed before the payment is completed, by design (see docs/large-results.md).
"""

import re
from functools import lru_cache
from io import BytesIO

from faregate.core.models import Header, Headers, Response
from faregate.core.withholding import MARK, is_harmless_error
from faregate.errors import ResultCutShort, ResultTooLarge

_MARK_NAME = MARK[0].lower()
_NOT_STARTED = "the handler sent a body before the start of its response"
_STARTED_AGAIN = (
    "the response was started again when a part of its body had been sent. Put a middleware that does this "
    "with each part of a stream outside the paywall"
)
# Servers refuse to send any other name or value of a header. The paywall checks them before the payment is
# completed: otherwise the payer would pay for a result that the server then does not send.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class BufferedResponse:
    """The response of a handler so far."""

    limit = 0
    """Bytes that the body may have."""
    failure: ResultTooLarge | ResultCutShort | None = None
    """Why the response is not a result, whatever follows: its body outgrew the limit, or lost a part."""
    may_be_replaced = False
    """Whether the handler raised, sent an error or cut its response: another one may take its place."""
    status = 0
    """The status of the response; 0 before it has started."""
    _headers: Headers = ()
    _first_chunk = b""
    _joined: BytesIO | None = None
    _size = 0

    @property
    def has_started(self) -> bool:
        return self.status != 0

    @property
    def body(self) -> bytes:
        """The body so far."""
        return self._first_chunk if self._joined is None else self._joined.getvalue()

    def start(self, status: int, headers: Headers) -> None:
        """Begin a response, in place of what was buffered before.

        An error may replace a part of a body, and any response replaces one that `may_be_replaced`. Otherwise
        a result that begins twice has lost a part. `failure` stays: the answer of a framework in place of a
        result that was too large is not sold. Raises `ValueError` for a start that no server would send.
        """
        if status < 200:
            raise ValueError(f"{status} is not the status of a final response")
        self._headers = tuple([_check_header(pair) for pair in headers if pair[0].lower() != _MARK_NAME])
        is_again = (
            self._size > 0
            and not self.may_be_replaced
            and (status == self.status or not is_harmless_error(status))
        )
        if is_again and self.failure is None:
            self.failure = ResultCutShort(_STARTED_AGAIN)
        self.status = status
        self.may_be_replaced = False
        self._drop_body()
        self._size = 0

    def append(self, chunk: bytes) -> None:
        """Append a piece of the body.

        Raises `ResultTooLarge`, or `RuntimeError` if no response was started.
        """
        if chunk and self.status == 0:
            raise RuntimeError(_NOT_STARTED)
        self._size += len(chunk)
        if self._size > self.limit:
            self._drop_body()
            too_large = self.failure = ResultTooLarge(
                f"the result has more than {self.limit} bytes. "
                "To sell it, raise max_result_bytes: of this offer, or of the paywall"
            )
            raise too_large
        if self._joined is not None:
            self._joined.write(chunk)
        elif self._first_chunk:
            # Join chunks as they come: joining a list of them at the end would hold the body in memory twice.
            self._joined = BytesIO()
            self._joined.write(self._first_chunk)
            self._joined.write(chunk)
            self._first_chunk = b""
        else:
            # Copy the chunk: a handler may send a view of memory that it writes to again.
            self._first_chunk = bytes(chunk)

    def build(self) -> Response:
        """Build the whole response. Raises `RuntimeError` if no response was started."""
        if self.status == 0:
            raise RuntimeError(_NOT_STARTED)
        return Response(self.status, self._headers, self.body)

    def _drop_body(self) -> None:
        self._first_chunk, self._joined = b"", None


def _check_header(header: Header) -> Header:
    name, value = header[0], header[1].strip(" \t")
    # Printable ASCII is space to tilde, and by far the usual case.
    is_sendable = (value.isascii() and value.isprintable()) or _VALUE.fullmatch(value) is not None
    if not (is_sendable and _is_sendable_name(name)):
        raise ValueError(f"the handler's header {name!r} cannot be sent as it is")
    return name, value


@lru_cache(maxsize=1024)
def _is_sendable_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def finalize(response: Response, method: str) -> tuple[Headers, bytes]:
    """Return headers and body as a server sends them: with the right length, and no body for HEAD, 204, 304.

    The length is counted here, because servers trust it: a length that is too small cuts a paid result off.
    """
    is_head = method == "HEAD"
    has_no_body = is_head or response.status in (204, 304)
    headers = response.headers
    if not is_head:
        headers = tuple([pair for pair in headers if pair[0].lower() != "content-length"])
    if has_no_body:
        return headers, b""
    return (*headers, ("Content-Length", str(len(response.body)))), response.body
