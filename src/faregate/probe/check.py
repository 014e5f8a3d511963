"""Checks, their observations and results. Pure.

A check that could not be made is `skipped`, with the reason, and never counts as passed.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.models import ErrorBody
from faregate.merchant.wire import parse

Verdict = Literal["pass", "fail", "skipped"]
Source = Literal["contract", "decision"]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one check, with the text for the report."""

    verdict: Verdict
    text: str


class SkipCheck(Exception):
    """The check cannot be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Check(Generic[R]):
    """`source`: `contract` if the specification says so, `decision` if it is silent and we decided."""

    id: str
    source: Source
    expected: str
    observe: Callable[[R], Observation]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check, as it is reported."""

    id: str
    source: Source
    expected: str
    observed: str
    verdict: Verdict


def judge(passed: bool, text: str) -> Observation:
    return Observation("pass" if passed else "fail", text)


def judge_error(response: Response, status: int, code: str) -> Observation:
    """Pass if the response is this error of the contract, in status and body."""
    return judge((response.status, parse_error_code(response)) == (status, code), describe(response))


def describe(response: Response) -> str:
    """Return status and error code. Never the body, which may contain data that the seller keeps private."""
    code = parse_error_code(response)
    return f"{response.status} {code}" if code else str(response.status)


def parse_error_code(response: Response) -> str | None:
    """Return the code of an error body; None for any other body."""
    try:
        return parse(ErrorBody, response).code
    except BadAnswer:
        return None


def get_field(response: Response, name: str) -> object:
    """Return a field of a JSON body; None if it is absent."""
    return parse_fields(response).get(name)


def parse_fields(response: Response) -> dict[str, object]:
    """Return the JSON object in the body; empty for any other body."""
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", body) if isinstance(body, dict) else {}
