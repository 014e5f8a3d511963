"""`/_emulator/worlds`: which there are, a new one, an end to one."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import (
    ControlError,
    get_tenants,
    json_response,
    parse_body,
    validation_error,
)
from faregate.emulator.tenants import MAIN, Tenants
from faregate.service.builtin import build_tenant_keys, is_valid_name
from faregate.service.config import Account


class NewTenant(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    seed: Annotated[int | str, Field(union_mode="left_to_right")] | None = None
    world: dict[str, JsonValue] | None = None


_new: TypeAdapter[NewTenant] = TypeAdapter(NewTenant)


def build_tenant_routes() -> list[Route]:
    return [
        Route("/_emulator/worlds", list_tenants, methods=["GET"]),
        Route("/_emulator/worlds", create_tenant, methods=["POST"]),
        Route("/_emulator/worlds/{name}", delete_tenant, methods=["DELETE"]),
    ]


async def list_tenants(request: Request) -> Response:
    """The names of all worlds, and the keys that open them."""
    worlds = get_tenants(request)
    return json_response({"worlds": [_describe_tenant(worlds, name) for name in worlds.names]})


async def create_tenant(request: Request) -> Response:
    """Opens a world before its first call, with a seed and a world file's content if given."""
    new = await parse_body(request, _new)
    worlds = get_tenants(request)
    worlds.open(new.name, world=_parse_account(new), seed=new.seed)
    return json_response(_describe_tenant(worlds, new.name), 201)


async def delete_tenant(request: Request) -> Response:
    """Forgets a world; its keys open a new one."""
    name: str = request.path_params["name"]
    if name == MAIN:
        raise ControlError(422, "invalid_request", "the main world stays: reset it instead")
    if not get_tenants(request).drop(name):
        raise ControlError(404, "world_not_found", f"there is no world {name!r}")
    return Response(status_code=204)


def _parse_account(new: NewTenant) -> Account | None:
    """Its keys are those of its name, whatever the file says."""
    if new.world is None or not is_valid_name(new.name):
        return None
    keys = [key.model_dump() for key in build_tenant_keys(new.name)]
    try:
        return Account.model_validate({**new.world, "keys": keys})
    except ValidationError as error:
        raise validation_error(error, "world") from None


def _describe_tenant(worlds: Tenants, name: str) -> dict[str, object]:
    """The keys are test data of this machine, made to be used."""
    keys = worlds.main.world.keys if name == MAIN else build_tenant_keys(name)
    return {"name": name, "keys": [key.key for key in keys]}
