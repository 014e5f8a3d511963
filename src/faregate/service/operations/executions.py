"""`POST /merchant/v1/resource-executions/{id}/complete`: close work that was free (spec: Endpoints). Pure."""

from pydantic import TypeAdapter

from faregate.core.models import Response
from faregate.merchant.answers import ResourceExecutionCompleted
from faregate.merchant.requests import ResourceExecutionCompleteRequest
from faregate.service.calls import Call
from faregate.service.replies import Refusal, answer
from faregate.service.state import Books

_request: TypeAdapter[ResourceExecutionCompleteRequest] = TypeAdapter(ResourceExecutionCompleteRequest)


def complete_execution(books: Books, call: Call) -> Response:
    """The same metadata again is the same answer; other metadata is a conflict."""
    request = call.body_as(_request)
    record = books.executions.get(call.identifier)
    if record is None:
        raise Refusal(404, "resource_execution_not_found", "there is no such free execution here")
    if record.revision_id != request.revision_id:
        raise Refusal(409, "revision_mismatch", "the execution was allowed for another revision")
    if record.metadata not in (None, request.resource_execution):
        raise Refusal(409, "resource_execution_conflict", "other metadata was already accepted")
    record.metadata = request.resource_execution
    return answer(ResourceExecutionCompleted(resource_execution_id=record.id))
