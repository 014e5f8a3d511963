"""Shared by all endpoints of the control plane: tenants from the path, bodies as models, errors as JSON."""

from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.rules.account import describe_error
from faregate.x402.tokens import Environment

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

TENANT = "/_emulator/tenants/{name}"
"""The path of one tenant."""


class ControlError(HTTPException):
    """An error response of the control plane."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


def get_tenants(request: Request) -> Tenants:
    tenants: Tenants = request.app.state.tenants
    return tenants


def get_emulator(request: Request) -> Emulator:
    """Return the emulator named in the path, or raise 404. A new name creates no tenant here."""
    name: str = request.path_params["name"]
    emulator = get_tenants(request).find(name)
    if emulator is None:
        raise ControlError(404, "tenant_not_found", f"there is no tenant {name!r}")
    return emulator


async def parse_body(request: Request, adapter: TypeAdapter[T]) -> T:
    """Parse the JSON body, an empty one as `{}`. Raises 422, which says what is wrong with it."""
    try:
        # An empty body, because many endpoints have a default for everything.
        return adapter.validate_json(await request.body() or b"{}")
    except ValidationError as error:
        raise build_validation_error(error, "body") from None


def parse_query(request: Request, model: type[M]) -> M:
    """Parse the query as this model. Raises 422, which says what is wrong with it."""
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise build_validation_error(error, "query") from None


def parse_environment(request: Request) -> Environment:
    """Parse `?environment=`, by default test. Raises 422."""
    match request.query_params.get("environment", "test"):
        case "test":
            return "test"
        case "live":
            return "live"
        case _:
            raise ControlError(422, "invalid_request", "environment: must be test or live")


def build_validation_error(error: ValidationError, source: str) -> ControlError:
    """Build a 422 from the first error; `source` names the place of an error that has none."""
    return ControlError(422, "invalid_request", describe_error(error, source))


def json_response(value: BaseModel | dict[str, object] | list[object], status: int = 200) -> Response:
    return JSONResponse(value.model_dump(mode="json") if isinstance(value, BaseModel) else value, status)


def handle_configuration_error(request: Request, error: Exception) -> Response:
    """Answer 422 for what the emulator cannot do."""
    return JSONResponse({"code": "invalid_request", "message": str(error)}, 422)


def handle_crash(request: Request, error: Exception) -> Response:
    """Answer 500 for a bug in the emulator; the server logs it."""
    return JSONResponse({"code": "internal_error", "message": "the emulator failed; its log says why"}, 500)


def handle_http_error(request: Request, error: Exception) -> Response:
    """Answer a `ControlError`, or the router's own 404 and 405."""
    # Starlette types every handler for Exception, but calls this one for HTTPException only.
    if not isinstance(error, HTTPException):
        raise error
    code = error.code if isinstance(error, ControlError) else "invalid_request"
    return JSONResponse({"code": code, "message": error.detail}, error.status_code, error.headers)
