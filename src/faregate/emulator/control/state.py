"""`/_emulator/tenants/{name}`: its `clock`, `reset`, the `state` document, and `snapshots` to restore.

Serializing a large state takes long, so it is done in a thread while the event loop serves other calls.
"""

from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.clock import EmulatorClock, Mode
from faregate.emulator.control.common import TENANT, ControlError, get_emulator, json_response, parse_body
from faregate.emulator.persistence.schema import StateDocument
from faregate.rules.account import FrozenModel


class NewSnapshot(FrozenModel):
    name: str | None = None


_new: TypeAdapter[NewSnapshot] = TypeAdapter(NewSnapshot)
_document: TypeAdapter[StateDocument] = TypeAdapter(StateDocument)


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
    emulator.load_state(document)
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


class ClockView(BaseModel):
    """The state of the clock. `rate` is its seconds per real second."""

    now: datetime
    mode: Mode
    rate: float


class ClockChange(FrozenModel):
    """Exactly one of the three. `freeze` is a future moment, or null for now."""

    advance: Annotated[float, Field(strict=True)] | None = None
    freeze: AwareDatetime | None = None
    run: Annotated[float, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of advance, freeze and run")
        if "freeze" not in self.model_fields_set and self.advance is None and self.run is None:
            raise ValueError("only freeze may be null")
        return self

    def apply(self, clock: EmulatorClock) -> None:
        """Change the clock. Raises `ConfigurationError`, such as for a moment that has passed."""
        if self.advance is not None:
            clock.advance(self.advance)
        elif self.run is not None:
            clock.run(self.run)
        else:
            clock.freeze(self.freeze)


_change: TypeAdapter[ClockChange] = TypeAdapter(ClockChange)


async def show_clock(request: Request) -> Response:
    """Return the current time, the clock's mode (frozen, real or scaled) and its rate."""
    return json_response(_view_clock(get_emulator(request).clock))


async def change_clock(request: Request) -> Response:
    """Change the clock: {"advance": seconds}, {"freeze": null or a moment}, or {"run": rate}."""
    clock = get_emulator(request).clock
    (await parse_body(request, _change)).apply(clock)
    return json_response(_view_clock(clock))


def _view_clock(clock: EmulatorClock) -> ClockView:
    return ClockView(now=clock(), mode=clock.mode, rate=clock.rate)


ROUTES: Final = (
    Route(f"{TENANT}/clock", show_clock, methods=["GET"]),
    Route(f"{TENANT}/clock", change_clock, methods=["POST"]),
    Route(f"{TENANT}/reset", reset, methods=["POST"]),
    Route(f"{TENANT}/state", export_state, methods=["GET"]),
    Route(f"{TENANT}/state", replace_state, methods=["PUT"]),
    Route(f"{TENANT}/snapshots", list_snapshots, methods=["GET"]),
    Route(f"{TENANT}/snapshots", take_snapshot, methods=["POST"]),
    Route(f"{TENANT}/snapshots/{{snapshot}}/restore", restore_snapshot, methods=["POST"]),
)
