"""What a check finds, and what a check is. Pure.

A check that could not look is `not seen`, with the reason: never `holds`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.answers import ErrorBody
from faregate.merchant.wire import parse

Verdict = Literal["holds", "differs", "not seen"]
Source = Literal["contract", "decision"]
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check saw of the service."""

    verdict: Verdict
    what: str


class CannotSee(Exception):
    """A check cannot look, for this reason."""


@dataclass(frozen=True, slots=True)
class Check(Generic[B]):
    """`source`: what the specification says itself, or what was decided where it is silent."""

    id: str
    source: Source
    expected: str
    look: Callable[[B], Seen]


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and what it saw."""

    id: str
    source: Source
    expected: str
    seen: str
    verdict: Verdict


def judged(fits: bool, what: str) -> Seen:
    return Seen("holds" if fits else "differs", what)


def refused(reply: Response, status: int, code: str) -> Seen:
    """Whether the reply is this error of the contract, in its body too."""
    found = error_code(reply)
    return judged((reply.status, found) == (status, code), shown(reply))


def shown(reply: Response) -> str:
    """Status and code, never the body: it may hold what a seller keeps to itself."""
    code = error_code(reply)
    return f"{reply.status} {code}" if code else str(reply.status)


def error_code(reply: Response) -> str | None:
    """The code of an error body, None if the body is none."""
    try:
        return parse(ErrorBody, reply).code
    except BadAnswer:
        return None


def said(reply: Response, name: str) -> object:
    """A field of a JSON body; None if it is not there."""
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", body).get(name) if isinstance(body, dict) else None
