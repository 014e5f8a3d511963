"""`/_emulator/worlds/{name}/calls` and `/invariants`: what came, and whether the seller did right."""

from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.assertions import Violation, find_open_transactions, find_overlapping_charges
from faregate.emulator.calls import RecordedCall
from faregate.emulator.control.common import ControlError, get_emulator, json_response
from faregate.emulator.expectations import Match
from faregate.emulator.recorder import NoSuchCall
from faregate.errors import ConfigurationError
from faregate.service.routes import Operation

MAX_WAIT_SECONDS: Final = 60


class CallQuery(BaseModel):
    """The query. With `wait` seconds the answer comes as soon as `count` calls match, or is 408."""

    model_config = ConfigDict(extra="forbid")

    operation: Operation | None = None
    environment: Literal["test", "live"] | None = None
    resource: str | None = None
    payer: str | None = None
    transaction: str | None = None
    status: int | None = None
    fault: str | None = None
    method: str | None = None
    undone: bool | None = None
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)] | None = None
    count: Annotated[int, Field(ge=1, le=10_000)] = 1

    def match(self) -> Match:
        said = self.model_dump(exclude={"operation", "wait", "count"}, exclude_none=True)
        return cast(Match, said)


_query_adapter: TypeAdapter[CallQuery] = TypeAdapter(CallQuery)


def build_call_routes() -> list[Route]:
    return [
        Route("/_emulator/worlds/{name}/calls", list_calls, methods=["GET"]),
        Route("/_emulator/worlds/{name}/invariants", list_invariants, methods=["GET"]),
    ]


async def list_calls(request: Request) -> Response:
    """Oldest first; the last 10,000 are there."""
    world, sought = get_emulator(request), _parse_query(request)
    try:
        if sought.wait is None:
            found = world.calls(sought.operation, **sought.match())
        else:
            found = await world.await_for(
                sought.operation, count=sought.count, timeout=sought.wait, **sought.match()
            )
    except NoSuchCall as error:
        raise ControlError(408, "no_such_call", str(error)) from None
    except ConfigurationError as error:
        raise ControlError(422, "invalid_request", str(error)) from None
    return json_response({"calls": [_build_call(call) for call in found]})


async def list_invariants(request: Request) -> Response:
    """Each with what breaks it; empty lists are good. What payers received cannot be known here."""
    world = get_emulator(request)
    doubtful, unsettled = world.look(
        lambda service, diary: (
            list(find_overlapping_charges(service, diary)),
            list(find_open_transactions(service)),
        )
    )
    return json_response(
        {"no_double_charge": _build_violations(doubtful), "all_settled": _build_violations(unsettled)}
    )


def _parse_query(request: Request) -> CallQuery:
    given = dict(request.query_params)
    try:
        return _query_adapter.validate_python(given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise ControlError(422, "invalid_request", f"{place}: {fault['msg']}") from None


def _build_call(call: RecordedCall) -> dict[str, Any]:
    """No keys, no proofs: what was decoded of them is the payer's and the service's own."""
    return {
        "number": call.number,
        "at": call.at.isoformat(),
        "operation": call.operation,
        "method": call.method,
        "path": call.path,
        "environment": call.environment,
        "resource": call.resource,
        "payer": call.payer,
        "transaction": call.transaction,
        "fault": call.fault,
        "status": call.status,
        "delivered": call.delivery.ending if call.delivery else None,
        "undone": call.undone,
        "instructions": call.instructions,
        "payment_response": call.payment_response,
    }


def _build_violations(findings: list[Violation]) -> list[object]:
    return [{"about": one.about, "transactions": list(one.transactions)} for one in findings]
