"""`/_emulator/worlds/{name}/settlements/{target}`: how payments end from now on."""

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.told import body_of, world_of
from faregate.service.goods import Settlement

PATH = "/_emulator/worlds/{name}/settlements/{target}"
_settlement: TypeAdapter[Settlement] = TypeAdapter(Settlement)


def routes_of_settlements() -> list[Route]:
    return [Route(PATH, put_settlement, methods=["PUT"]), Route(PATH, drop_settlement, methods=["DELETE"])]


async def put_settlement(request: Request) -> Response:
    """The payments of a transaction's id, a payer's address, a resource's key or * end so from now on."""
    world = world_of(request)
    settlement = await body_of(request, _settlement)
    world.settle_after(request.path_params["target"], settlement)
    return Response(status_code=204)


async def drop_settlement(request: Request) -> Response:
    """Takes the rule for this target back."""
    world_of(request).settle_after(request.path_params["target"], None)
    return Response(status_code=204)
