"""What goes back: answers of the contract as JSON, and refusals (spec: Errors). Pure."""

import json
from typing import Any

from pydantic import BaseModel

from faregate.core.models import Headers, Response
from faregate.merchant.answers import ErrorBody

JSON_TYPE = ("Content-Type", "application/json")
SOON = ("Retry-After", "1")


class Refusal(Exception):
    """An error of the contract, raised anywhere below `respond`: status, stable code, message."""

    def __init__(self, status: int, code: str, message: str, headers: Headers = ()) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers

    def response(self) -> Response:
        body = ErrorBody(code=self.code, message=self.message)
        return answer(body, status=self.status, headers=self.headers)


def invalid(message: str, status: int = 422) -> Refusal:
    """`invalid_request`: 422 for a rule broken, 400 for what is not JSON, 409 for a change of mind."""
    return Refusal(status, "invalid_request", message)


def answer(model: BaseModel, *, status: int = 200, headers: Headers = ()) -> Response:
    """The whole model; what is null is written as null."""
    body = model.model_dump_json(by_alias=True).encode()
    return Response(status, (JSON_TYPE, *headers), body)


def answer_value(value: dict[str, Any], *, status: int = 200, headers: Headers = ()) -> Response:
    """An already dumped model."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(status, (JSON_TYPE, *headers), body)
