"""`/_emulator/tenants/{name}`: `reset`, the `state` document, and `snapshots` to restore.

Serializing a large state takes long, so it is done in a thread while the event loop serves other calls.
"""

from pydantic import BaseModel, ConfigDict, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import TENANT, ControlError, get_emulator, json_response, parse_body
from faregate.emulator.persistence.schema import StateDocument


class NewSnapshot(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str | None = None


_new: TypeAdapter[NewSnapshot] = TypeAdapter(NewSnapshot)
_document: TypeAdapter[StateDocument] = TypeAdapter(StateDocument)


def build_state_routes() -> list[Route]:
    return [
        Route(f"{TENANT}/reset", reset, methods=["POST"]),
        Route(f"{TENANT}/state", export_state, methods=["GET"]),
        Route(f"{TENANT}/state", replace_state, methods=["PUT"]),
        Route(f"{TENANT}/snapshots", list_snapshots, methods=["GET"]),
        Route(f"{TENANT}/snapshots", take_snapshot, methods=["POST"]),
        Route(f"{TENANT}/snapshots/{{snapshot}}/restore", restore_snapshot, methods=["POST"]),
    ]


async def reset(request: Request) -> Response:
    """Restore the initial state, clock, ids and faults, and discard calls and snapshots."""
    get_emulator(request).reset()
    return Response(status_code=204)


async def export_state(request: Request) -> Response:
    """Export the state document: all that happened, including payers' signatures."""
    text = await run_in_threadpool("".join, get_emulator(request).iter_export())
    return Response(text, media_type="application/json")


async def replace_state(request: Request) -> Response:
    """Replace the state by this document; what it leaves out is as at the start."""
    emulator = get_emulator(request)
    document = await parse_body(request, _document)
    emulator.seed(document)
    return Response(status_code=204)


async def list_snapshots(request: Request) -> Response:
    """List the names of all snapshots, the latest last."""
    return json_response({"snapshots": get_emulator(request).snapshots})


async def take_snapshot(request: Request) -> Response:
    """Take a snapshot, named {"name": ...} or by default; one of the same name is replaced."""
    emulator = get_emulator(request)
    new = await parse_body(request, _new)
    return json_response({"name": await run_in_threadpool(emulator.snapshot, new.name)}, 201)


async def restore_snapshot(request: Request) -> Response:
    """Restore this snapshot. The recorded calls stay, marked as undone."""
    emulator, name = get_emulator(request), str(request.path_params["snapshot"])
    if name not in emulator.snapshots:
        raise ControlError(404, "snapshot_not_found", f"there is no snapshot {name!r}")
    emulator.restore(name)
    return Response(status_code=204)
