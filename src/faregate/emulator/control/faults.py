"""`/_emulator/tenants/{name}/faults`: list, inject and remove faults, one by one or a preset mode."""

from typing import Annotated, Any, Final

from pydantic import Discriminator, Tag, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import TENANT, ControlError, get_emulator, json_response, parse_body
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, ActiveFault, Fault
from faregate.rules.account import FrozenModel


class FaultMode(FrozenModel):
    mode: str


def _discriminate(body: Any) -> str:
    return "mode" if isinstance(body, dict) and "mode" in body else "fault"


_body: TypeAdapter[FaultMode | Fault] = TypeAdapter(
    Annotated[
        Annotated[FaultMode, Tag("mode")] | Annotated[Fault, Tag("fault")], Discriminator(_discriminate)
    ]
)
_PATH = f"{TENANT}/faults"


async def list_faults(request: Request) -> Response:
    """List the active faults in order, and the name of the mode they belong to."""
    return json_response(format_faults(get_emulator(request)))


async def add_fault(request: Request) -> Response:
    """Add a fault after the others, or replace them all by a mode."""
    emulator = get_emulator(request)
    body = await parse_body(request, _body)
    if isinstance(body, Fault):
        return json_response(_format_rule(emulator.faults.add(body)), 201)
    emulator.mode(body.mode)
    return json_response(format_faults(emulator), 201)


async def clear_faults(request: Request) -> Response:
    """Remove all faults."""
    get_emulator(request).faults.clear()
    return Response(status_code=204)


async def remove_fault(request: Request) -> Response:
    """Remove one fault."""
    fault: str = request.path_params["fault"]
    if not get_emulator(request).faults.remove(fault):
        raise ControlError(404, "fault_not_found", f"there is no active fault {fault!r}")
    return Response(status_code=204)


def format_faults(emulator: Emulator) -> dict[str, object]:
    return {
        "mode": emulator.faults.mode,
        "modes": list(MODES),
        "faults": [_format_rule(rule) for rule in emulator.faults],
    }


def _format_rule(rule: ActiveFault) -> dict[str, object]:
    shown = rule.fault.model_dump(mode="json", exclude_none=True)
    # `times` is shown as null, too: for ever. Left out, it would mean once.
    return {"id": rule.id, "applied": rule.applied, "fault": {**shown, "times": rule.fault.times}}


ROUTES: Final = (
    Route(_PATH, list_faults, methods=["GET"]),
    Route(_PATH, add_fault, methods=["POST"]),
    Route(_PATH, clear_faults, methods=["DELETE"]),
    Route(f"{_PATH}/{{fault}}", remove_fault, methods=["DELETE"]),
)
