"""What every part of the control plane needs: the world that is meant, bodies as models, errors as JSON."""

from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.merchant.types import Environment

T = TypeVar("T")


class ControlError(HTTPException):
    """An error for whoever uses the control plane."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


def get_tenants(request: Request) -> Tenants:
    found: Tenants = request.app.state.worlds
    return found


def get_emulator(request: Request) -> Emulator:
    """The world named in the path, or 404: worlds are made by their keys or by `POST /_emulator/worlds`."""
    name: str = request.path_params["name"]
    found = get_tenants(request).find(name)
    if found is None:
        raise ControlError(404, "world_not_found", f"there is no world {name!r}")
    return found


async def parse_body(request: Request, adapter: TypeAdapter[T]) -> T:
    """The JSON body by this model; an empty one is `{}`. 422 says what is wrong with it."""
    try:
        return adapter.validate_json(await request.body() or b"{}")
    except ValidationError as error:
        raise validation_error(error, "body") from None


def parse_environment(request: Request) -> Environment:
    """`?environment=`, test if it is left out; 422 for anything else."""
    match request.query_params.get("environment", "test"):
        case "test":
            return "test"
        case "live":
            return "live"
        case _:
            raise ControlError(422, "invalid_request", "environment: it is test or live")


def validation_error(error: ValidationError, whole: str) -> ControlError:
    """422, with the place of the fault; `whole` is its name if it is everywhere."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, fault["loc"])) or whole
    return ControlError(422, "invalid_request", f"{place}: {fault['msg'].removeprefix('Value error, ')}")


def json_response(value: BaseModel | dict[str, object] | list[object], status: int = 200) -> Response:
    return JSONResponse(value.model_dump(mode="json") if isinstance(value, BaseModel) else value, status)


def handle_configuration_error(request: Request, error: Exception) -> Response:
    """What the emulator will not do is 422, and says why."""
    return JSONResponse({"code": "invalid_request", "message": str(error)}, 422)


def handle_failure(request: Request, error: Exception) -> Response:
    """A fault of the emulator itself; the server logs it."""
    return JSONResponse({"code": "internal_error", "message": "the emulator failed; its log says why"}, 500)


def handle_http_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for `HTTPException`: 404 and 405 of the router, and `Told`."""
    if not isinstance(error, HTTPException):
        raise error
    code = error.code if isinstance(error, ControlError) else "invalid_request"
    return JSONResponse({"code": code, "message": error.detail}, error.status_code, error.headers)
