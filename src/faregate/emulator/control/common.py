"""What every part of the control plane needs: the world that is meant, bodies as models, errors as JSON."""

from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Worlds
from faregate.merchant.types import Environment

T = TypeVar("T")


class Told(HTTPException):
    """An error for whoever uses the control plane."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


def worlds_of(request: Request) -> Worlds:
    found: Worlds = request.app.state.worlds
    return found


def world_of(request: Request) -> Emulator:
    """The world named in the path, or 404: worlds are made by their keys or by `POST /_emulator/worlds`."""
    name: str = request.path_params["name"]
    found = worlds_of(request).find(name)
    if found is None:
        raise Told(404, "world_not_found", f"there is no world {name!r}")
    return found


async def body_of(request: Request, adapter: TypeAdapter[T]) -> T:
    """The JSON body by this model; an empty one is `{}`. 422 says what is wrong with it."""
    try:
        return adapter.validate_json(await request.body() or b"{}")
    except ValidationError as error:
        raise rule_broken(error, "body") from None


def environment_of(request: Request) -> Environment:
    """`?environment=`, test if it is left out; 422 for anything else."""
    match request.query_params.get("environment", "test"):
        case "test":
            return "test"
        case "live":
            return "live"
        case _:
            raise Told(422, "invalid_request", "environment: it is test or live")


def rule_broken(error: ValidationError, whole: str) -> Told:
    """422, with the place of the fault; `whole` is its name if it is everywhere."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, fault["loc"])) or whole
    return Told(422, "invalid_request", f"{place}: {fault['msg'].removeprefix('Value error, ')}")


def told(value: BaseModel | dict[str, object] | list[object], status: int = 200) -> Response:
    return JSONResponse(value.model_dump(mode="json") if isinstance(value, BaseModel) else value, status)


def misconfigured_as_json(request: Request, error: Exception) -> Response:
    """What the emulator will not do is 422, and says why."""
    return JSONResponse({"code": "invalid_request", "message": str(error)}, 422)


def failure_as_json(request: Request, error: Exception) -> Response:
    """A fault of the emulator itself; the server logs it."""
    return JSONResponse({"code": "internal_error", "message": "the emulator failed; its log says why"}, 500)


def error_as_json(request: Request, error: Exception) -> Response:
    """Starlette's handler for `HTTPException`: 404 and 405 of the router, and `Told`."""
    if not isinstance(error, HTTPException):
        raise error
    code = error.code if isinstance(error, Told) else "invalid_request"
    return JSONResponse({"code": code, "message": error.detail}, error.status_code, error.headers)
