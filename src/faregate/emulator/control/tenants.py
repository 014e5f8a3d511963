"""`/_emulator/worlds`: which there are, a new one, an end to one."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import Told, body_of, rule_broken, told, worlds_of
from faregate.emulator.tenants import MAIN, Worlds
from faregate.service.builtin import is_name, keys_of
from faregate.service.config import World


class NewWorld(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    seed: Annotated[int | str, Field(union_mode="left_to_right")] | None = None
    world: dict[str, JsonValue] | None = None


_new: TypeAdapter[NewWorld] = TypeAdapter(NewWorld)


def routes_of_worlds() -> list[Route]:
    return [
        Route("/_emulator/worlds", list_worlds, methods=["GET"]),
        Route("/_emulator/worlds", open_world, methods=["POST"]),
        Route("/_emulator/worlds/{name}", drop_world, methods=["DELETE"]),
    ]


async def list_worlds(request: Request) -> Response:
    """The names of all worlds, and the keys that open them."""
    worlds = worlds_of(request)
    return told({"worlds": [_about(worlds, name) for name in worlds.names]})


async def open_world(request: Request) -> Response:
    """Opens a world before its first call, with a seed and a world file's content if given."""
    new = await body_of(request, _new)
    worlds = worlds_of(request)
    worlds.open(new.name, world=_world(new), seed=new.seed)
    return told(_about(worlds, new.name), 201)


async def drop_world(request: Request) -> Response:
    """Forgets a world; its keys open a new one."""
    name: str = request.path_params["name"]
    if name == MAIN:
        raise Told(422, "invalid_request", "the main world stays: reset it instead")
    if not worlds_of(request).drop(name):
        raise Told(404, "world_not_found", f"there is no world {name!r}")
    return Response(status_code=204)


def _world(new: NewWorld) -> World | None:
    """Its keys are those of its name, whatever the file says."""
    if new.world is None or not is_name(new.name):
        return None
    keys = [key.model_dump() for key in keys_of(new.name)]
    try:
        return World.model_validate({**new.world, "keys": keys})
    except ValidationError as error:
        raise rule_broken(error, "world") from None


def _about(worlds: Worlds, name: str) -> dict[str, object]:
    """The keys are test data of this machine, made to be used."""
    keys = worlds.main.world.keys if name == MAIN else keys_of(name)
    return {"name": name, "keys": [key.key for key in keys]}
