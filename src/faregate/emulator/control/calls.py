"""`/_emulator/tenants/{name}/calls` and `/invariants`: the recorded calls, and what the seller did wrong."""

from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.assertions import Violation, find_open_transactions, find_overlapping_charges
from faregate.emulator.calls import RecordedCall
from faregate.emulator.control.common import (
    ControlError,
    get_emulator,
    json_response,
    parse_query,
)
from faregate.emulator.expectations import Match, NoSuchCall
from faregate.rules.account import FrozenModel
from faregate.rules.routes import Operation

MAX_WAIT: Final = 60


class CallQuery(FrozenModel):
    """The query. `wait` is in seconds: the response comes when `count` calls match, else it is 408."""

    operation: Operation | None = None
    environment: Literal["test", "live"] | None = None
    resource: str | None = None
    payer: str | None = None
    transaction: str | None = None
    status: int | None = None
    fault: str | None = None
    method: str | None = None
    undone: bool | None = None
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT, allow_inf_nan=False)] | None = None
    count: Annotated[int, Field(ge=1, le=10_000)] = 1

    def build_match(self) -> Match:
        return cast(Match, self.model_dump(exclude={"operation", "wait", "count"}, exclude_none=True))


async def list_calls(request: Request) -> Response:
    """List the recorded calls, oldest first; the last 10,000 are kept."""
    emulator, query = get_emulator(request), parse_query(request, CallQuery)
    try:
        if query.wait is None:
            calls = emulator.calls(query.operation, **query.build_match())
        else:
            # Awaited, because the calls that it waits for come over the same event loop.
            calls = await emulator.await_for(
                query.operation, count=query.count, timeout=query.wait, **query.build_match()
            )
    except NoSuchCall as error:
        raise ControlError(408, "no_such_call", str(error)) from None
    return json_response({"calls": [_format_call(call) for call in calls]})


async def list_invariants(request: Request) -> Response:
    """List what violates the invariants; the responses that payers got are not known here."""
    emulator = get_emulator(request)
    double_charges, unsettled = emulator.read_state(
        lambda service, log: (
            list(find_overlapping_charges(service, log)),
            list(find_open_transactions(service)),
        )
    )
    return json_response(
        {"no_double_charge": _format_violations(double_charges), "all_settled": _format_violations(unsettled)}
    )


def _format_call(call: RecordedCall) -> dict[str, Any]:
    """Format a call without its keys and proofs."""
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


def _format_violations(violations: list[Violation]) -> list[object]:
    return [
        {"about": violation.about, "transactions": list(violation.transactions)} for violation in violations
    ]


ROUTES: Final = (
    Route("/_emulator/tenants/{name}/calls", list_calls, methods=["GET"]),
    Route("/_emulator/tenants/{name}/invariants", list_invariants, methods=["GET"]),
)
