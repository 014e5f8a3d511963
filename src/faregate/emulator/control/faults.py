"""`/_emulator/worlds/{name}/faults`: what goes wrong there, one fault or a whole mode more, and its end."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import ControlError, get_emulator, json_response, parse_body
from faregate.emulator.emulator import Emulator
from faregate.emulator.faults import MODES, Fault, Rule
from faregate.errors import ConfigurationError
from faregate.service.config import FrozenModel


class ModeName(FrozenModel):
    mode: str


def _discriminate(body: Any) -> str:
    return "mode" if isinstance(body, dict) and "mode" in body else "fault"


_body: TypeAdapter[ModeName | Fault] = TypeAdapter(
    Annotated[Annotated[ModeName, Tag("mode")] | Annotated[Fault, Tag("fault")], Discriminator(_discriminate)]
)
_PATH = "/_emulator/worlds/{name}/faults"


def build_fault_routes() -> list[Route]:
    return [
        Route(_PATH, list_faults, methods=["GET"]),
        Route(_PATH, add_fault, methods=["POST"]),
        Route(_PATH, clear_faults, methods=["DELETE"]),
        Route(f"{_PATH}/{{fault}}", remove_fault, methods=["DELETE"]),
    ]


async def list_faults(request: Request) -> Response:
    """Those that can still strike, in their order, and the name of their mode if they are one."""
    return json_response(describe_faults(get_emulator(request)))


async def add_fault(request: Request) -> Response:
    """A fault comes after those there are; a mode replaces them all."""
    emulator = get_emulator(request)
    body = await parse_body(request, _body)
    if isinstance(body, Fault):
        return json_response(_describe_rule(emulator.faults.add(body)), 201)
    try:
        emulator.mode(body.mode)
    except ConfigurationError as error:
        raise ControlError(422, "invalid_request", str(error)) from None
    return json_response(describe_faults(emulator), 201)


async def clear_faults(request: Request) -> Response:
    """Nothing goes wrong any more."""
    get_emulator(request).faults.clear()
    return Response(status_code=204)


async def remove_fault(request: Request) -> Response:
    """Takes one fault back."""
    fault: str = request.path_params["fault"]
    if not get_emulator(request).faults.remove(fault):
        raise ControlError(404, "fault_not_found", f"there is no fault {fault!r}, or no more")
    return Response(status_code=204)


def describe_faults(emulator: Emulator) -> dict[str, object]:
    """The faults of a world as JSON."""
    return {
        "mode": emulator.faults.mode,
        "modes": list(MODES),
        "faults": [_describe_rule(rule) for rule in emulator.faults],
    }


def _describe_rule(rule: Rule) -> dict[str, object]:
    shown = rule.fault.model_dump(mode="json", exclude_none=True)
    return {"id": rule.id, "struck": rule.struck, "fault": {**shown, "times": rule.fault.times}}
