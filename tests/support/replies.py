"""Replies of the service, made up or changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faregate.core.models import Headers, Response

Change = Callable[[Response], Response]
JSON: Headers = (("content-type", "application/json"),)


def json_reply(status: int, body: Any, *headers: tuple[str, str]) -> Response:
    """A reply with this body. Bytes are sent as they are, and called JSON all the same."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, (*JSON, *headers), content)


def with_status(status: int) -> Change:
    return lambda reply: replace(reply, status=status)


def with_body(change: Callable[[Any], Any]) -> Change:
    """The reply with its JSON changed."""
    return lambda reply: replace(reply, body=json.dumps(change(json.loads(reply.body))).encode())


def with_fields(**fields: Any) -> Change:
    """The reply with these fields in its JSON object."""
    return with_body(lambda body: {**body, **fields})


def without(name: str) -> Change:
    """The reply without a header."""
    return lambda reply: replace(
        reply, headers=tuple(pair for pair in reply.headers if pair[0].lower() != name.lower())
    )


def with_header(name: str, *values: str) -> Change:
    """The reply with these values of a header, and no others."""
    return lambda reply: without(name)(reply).plus(*((name, value) for value in values))
