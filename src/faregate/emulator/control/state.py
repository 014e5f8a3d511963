"""`/_emulator/worlds/{name}`: `reset`, the `state` document, `snapshots` to go back to.

A large world takes its time to be written down: that is done in a thread, and calls are answered meanwhile.
"""

from pydantic import BaseModel, ConfigDict, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import ControlError, get_emulator, json_response, parse_body
from faregate.emulator.persistence.schema import StateDocument

WORLD = "/_emulator/worlds/{name}"


class NewSnapshot(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str | None = None


_new: TypeAdapter[NewSnapshot] = TypeAdapter(NewSnapshot)
_document: TypeAdapter[StateDocument] = TypeAdapter(StateDocument)


def build_state_routes() -> list[Route]:
    return [
        Route(f"{WORLD}/reset", reset, methods=["POST"]),
        Route(f"{WORLD}/state", export_state, methods=["GET"]),
        Route(f"{WORLD}/state", load_state, methods=["PUT"]),
        Route(f"{WORLD}/snapshots", list_snapshots, methods=["GET"]),
        Route(f"{WORLD}/snapshots", take_snapshot, methods=["POST"]),
        Route(f"{WORLD}/snapshots/{{snapshot}}/restore", restore_snapshot, methods=["POST"]),
    ]


async def reset(request: Request) -> Response:
    """Back to the world as it was set up, its clock, ids and faults too; calls and snapshots go."""
    get_emulator(request).reset()
    return Response(status_code=204)


async def export_state(request: Request) -> Response:
    """The state document: all that happened, payers' signatures included."""
    text = await run_in_threadpool("".join, get_emulator(request).written())
    return Response(text, media_type="application/json")


async def load_state(request: Request) -> Response:
    """The world is as this state document says from now on; what it leaves out is as it was set up."""
    world = get_emulator(request)
    document = await parse_body(request, _document)
    world.seed(document)
    return Response(status_code=204)


async def list_snapshots(request: Request) -> Response:
    """The names of all snapshots, the latest last."""
    return json_response({"snapshots": get_emulator(request).snapshots})


async def take_snapshot(request: Request) -> Response:
    """Remembers the world as it is; {"name": ...} or a name of its own. The same name is replaced."""
    world = get_emulator(request)
    new = await parse_body(request, _new)
    return json_response({"name": await run_in_threadpool(world.snapshot, new.name)}, 201)


async def restore_snapshot(request: Request) -> Response:
    """Rewinds everything to this snapshot, but not the calls."""
    world, name = get_emulator(request), str(request.path_params["snapshot"])
    if name not in world.snapshots:
        raise ControlError(404, "snapshot_not_found", f"there is no snapshot {name!r}")
    world.restore(name)
    return Response(status_code=204)
