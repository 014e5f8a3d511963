"""An ASGI answer that came from no route, held until it is compared with the results. Pure."""

from faregate.checkout.asgi_scope import Message
from faregate.core.result_bodies import ResultBodies

_BODY = "http.response.body"


class HeldAnswer:
    """The messages of an answer, from its start on, until it is whole or longer than any result."""

    def __init__(self, start: Message, results: ResultBodies) -> None:
        self.messages = [start]
        self._results = results
        self._length = 0

    def append(self, message: Message) -> bool:
        """Append a message; return whether the answer is to be held no longer."""
        self.messages.append(message)
        if message["type"] != _BODY:
            return True  # a file that the server sends, or what ends a body
        self._length += len(message.get("body", b""))
        return not message.get("more_body", False) or self._length > self._results.longest

    def is_copy(self) -> bool:
        """Whether the body is that of a result. An answer that is not whole is longer than any."""
        bodies = [message.get("body", b"") for message in self.messages if message["type"] == _BODY]
        encoding = read_header(self.messages[0], b"content-encoding").decode("latin-1")
        return self._length <= self._results.longest and self._results.has(b"".join(bodies), encoding)


def may_be_copy(start: Message, results: ResultBodies) -> bool:
    """Whether an answer that begins so may have the body of a result, as far as its headers tell.

    An event stream may go on for ever, so it cannot be held until it is whole.
    """
    length = read_header(start, b"content-length")
    is_longer = length.isdigit() and int(length) > results.longest
    return not is_longer and not read_header(start, b"content-type").startswith(b"text/event-stream")


def read_header(start: Message, name: bytes) -> bytes:
    """The value of the first header of this name, which is in lower case; b"" if there is none."""
    for key, value in start.get("headers", ()):
        if len(key) == len(name) and bytes(key).lower() == name:
            return bytes(value).strip()
    return b""
