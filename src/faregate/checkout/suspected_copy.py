"""A response under ASGI that came from no route, kept back until it is compared with the results. Pure."""

from faregate.checkout.asgi_scope import Message
from faregate.checkout.copy_detection import RESULTS

_BODY = "http.response.body"
_COMPARED = 1024
"""How many bytes of a beginning are looked at: enough of one that is compressed."""


class SuspectedCopy:
    """The messages of a response, from its start on, until it is whole or too long to be a copy."""

    def __init__(self, start: Message) -> None:
        self.messages = [start]
        self._length = 0
        self._beginning = b""

    def append(self, message: Message) -> bool:
        """Append a message; return whether the response is to be kept back no longer."""
        if message["type"] != _BODY:
            self.messages.append(message)
            return True  # a file that the server sends, or what ends a body
        # Its sender may use the message and its buffer again.
        body = bytes(message.get("body", b""))
        self.messages.append({**message, "body": body})
        self._length += len(body)
        if not message.get("more_body", False) or self._length > RESULTS.limit:
            return True
        # A feed may be slow, or go on for ever: it is kept back only where a result has begun like it.
        if len(self._beginning) < _COMPARED:
            self._beginning += body[:_COMPARED]
        return not RESULTS.may_begin(self._beginning)

    def is_copy(self) -> bool:
        """Whether the body is that of a result; if not, it is remembered as one that was there before."""
        last = self.messages[-1]
        if last["type"] != _BODY or last.get("more_body", False):
            return False
        body = b"".join([message.get("body", b"") for message in self.messages[1:]])
        if RESULTS.is_copy(body):
            return True
        RESULTS.add_free(body)
        return False


def may_be_copy(start: Message) -> bool:
    """Whether a response that begins so is to be compared, as far as its headers tell.

    An event stream may go on for ever, so it cannot be kept back until it is whole.
    """
    if not 200 <= start["status"] <= 599:
        return False  # no final response: it is judged before the application goes on
    length = read_header(start, b"content-length")
    is_longer = length.isdigit() and int(length) > RESULTS.limit > 0
    return not is_longer and not read_header(start, b"content-type").lower().startswith(b"text/event-stream")


def read_header(start: Message, name: bytes) -> bytes:
    """The value of the first header of this name, which is in lower case; b"" if there is none."""
    for key, value in start.get("headers", ()):
        if len(key) == len(name) and bytes(key).lower() == name:
            return bytes(value).strip()
    return b""
