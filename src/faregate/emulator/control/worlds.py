"""`/_emulator/worlds`: which there are, a new one, an end to one."""

from pydantic import BaseModel, ConfigDict, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.told import Told, body_of, told, worlds_of
from faregate.emulator.worldkeys import keys_of
from faregate.emulator.worlds import MAIN, Worlds
from faregate.errors import Misconfigured


class NewWorld(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


_new: TypeAdapter[NewWorld] = TypeAdapter(NewWorld)


def routes_of_worlds() -> list[Route]:
    return [
        Route("/_emulator/worlds", list_worlds, methods=["GET"]),
        Route("/_emulator/worlds", open_world, methods=["POST"]),
        Route("/_emulator/worlds/{name}", drop_world, methods=["DELETE"]),
    ]


async def list_worlds(request: Request) -> Response:
    worlds = worlds_of(request)
    return told({"worlds": [_about(worlds, name) for name in worlds.names]})


async def open_world(request: Request) -> Response:
    """Opens a world before its first call; one that is there already is left as it is."""
    new = await body_of(request, _new)
    worlds = worlds_of(request)
    try:
        worlds.open(new.name)
    except Misconfigured as error:
        raise Told(422, "invalid_request", str(error)) from None
    return told(_about(worlds, new.name), 201)


async def drop_world(request: Request) -> Response:
    name: str = request.path_params["name"]
    if name == MAIN:
        raise Told(422, "invalid_request", "the main world stays: reset it instead")
    if not worlds_of(request).drop(name):
        raise Told(404, "world_not_found", f"there is no world {name!r}")
    return Response(status_code=204)


def _about(worlds: Worlds, name: str) -> dict[str, object]:
    """The keys are test data of this machine, made to be used."""
    keys = worlds.main.world.keys if name == MAIN else keys_of(name)
    return {"name": name, "keys": [key.key for key in keys]}
