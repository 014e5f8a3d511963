"""One incoming call, read strictly: headers once, bodies by the contract's models. Pure."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from faregate.core.models import Headers, header_values
from faregate.service.replies import Refusal, invalid

T = TypeVar("T")
MAX_BODY: Final = 64 * 1024
_MAX_PARAMETERS: Final = 50
_REMEMBERED_BODIES: Final = 128


@dataclass(frozen=True, slots=True)
class Call:
    """`identifier` is the id in the path (not checked); empty where the path has none."""

    identifier: str
    query: str
    headers: Headers
    body: bytes

    def only_header(self, name: str) -> str | None:
        """The value of the header `name` (lower case), None if absent; sent twice is 422."""
        values = header_values(self.headers, name)
        if len(values) > 1:
            raise invalid(f"the header {name.upper()} was sent more than once")
        return values[0] if values else None

    def parameters(self) -> dict[str, str]:
        """The query, decoded; a parameter sent twice is 422."""
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            raise invalid("the query cannot be read") from None
        found = dict(pairs)
        if len(found) < len(pairs):
            raise invalid("a query parameter was sent more than once")
        return found

    def body_as(self, adapter: TypeAdapter[T]) -> T:
        """The body by this model: 400 if it is not JSON, 422 if it breaks a rule."""
        if len(self.body) > MAX_BODY:
            raise invalid(f"the body is longer than {MAX_BODY} bytes", 400)
        try:
            found: T = _parsed(adapter, self.body)
        except ValidationError as error:
            raise _refusal(error) from None
        return found


@lru_cache(maxsize=_REMEMBERED_BODIES)
def _parsed(adapter: TypeAdapter[Any], body: bytes) -> Any:
    """A seller sends few different bodies. What they say is frozen, so that all may share it."""
    return adapter.validate_json(body)


def _refusal(error: ValidationError) -> Refusal:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if fault["type"] == "json_invalid":
        return invalid("the body is not JSON", 400)
    place = ".".join(map(str, fault["loc"])) or "body"
    return invalid(f"{place}: {fault['msg'].removeprefix('Value error, ')}")
