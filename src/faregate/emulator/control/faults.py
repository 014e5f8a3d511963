"""`/_emulator/worlds/{name}/faults`: what goes wrong there, one fault or a whole mode more, and its end."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import Told, body_of, told, world_of
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault, Rule
from faregate.errors import ConfigurationError
from faregate.service.config import Part


class Mode(Part):
    mode: str


def _sort(body: Any) -> str:
    return "mode" if isinstance(body, dict) and "mode" in body else "fault"


_body: TypeAdapter[Mode | Fault] = TypeAdapter(
    Annotated[Annotated[Mode, Tag("mode")] | Annotated[Fault, Tag("fault")], Discriminator(_sort)]
)
_PATH = "/_emulator/worlds/{name}/faults"


def routes_of_faults() -> list[Route]:
    return [
        Route(_PATH, list_faults, methods=["GET"]),
        Route(_PATH, add_fault, methods=["POST"]),
        Route(_PATH, clear_faults, methods=["DELETE"]),
        Route(f"{_PATH}/{{fault}}", remove_fault, methods=["DELETE"]),
    ]


async def list_faults(request: Request) -> Response:
    """Those that can still strike, in their order, and the name of their mode if they are one."""
    return told(about(world_of(request)))


async def add_fault(request: Request) -> Response:
    """A fault comes after those there are; a mode replaces them all."""
    emulator = world_of(request)
    body = await body_of(request, _body)
    if isinstance(body, Fault):
        return told(_rule(emulator.faults.add(body)), 201)
    try:
        emulator.mode(body.mode)
    except ConfigurationError as error:
        raise Told(422, "invalid_request", str(error)) from None
    return told(about(emulator), 201)


async def clear_faults(request: Request) -> Response:
    """Nothing goes wrong any more."""
    world_of(request).faults.clear()
    return Response(status_code=204)


async def remove_fault(request: Request) -> Response:
    """Takes one fault back."""
    fault: str = request.path_params["fault"]
    if not world_of(request).faults.remove(fault):
        raise Told(404, "fault_not_found", f"there is no fault {fault!r}, or no more")
    return Response(status_code=204)


def about(emulator: Emulator) -> dict[str, object]:
    """The faults of a world as JSON."""
    return {
        "mode": emulator.faults.mode,
        "modes": list(MODES),
        "faults": [_rule(rule) for rule in emulator.faults],
    }


def _rule(rule: Rule) -> dict[str, object]:
    shown = rule.fault.model_dump(mode="json", exclude_none=True)
    return {"id": rule.id, "struck": rule.struck, "fault": {**shown, "times": rule.fault.times}}
