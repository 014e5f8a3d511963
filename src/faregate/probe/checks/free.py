"""Free access, and the execution it creates (spec: rules 3 and 9; that its id is returned is a decision)."""

import re
from collections.abc import Mapping

from faregate.core.models import Response
from faregate.merchant.formats import ID_TAIL
from faregate.probe.check import (
    Check,
    Observation,
    SkipCheck,
    describe,
    get_field,
    judge,
    judge_error,
    parse_fields,
)
from faregate.probe.fixtures import ProbeRun
from faregate.probe.session import METADATA, make_unknown_id

_EXECUTION_ID = re.compile(f"rex_{ID_TAIL}", re.ASCII)
_ID_FIELD = "resource_execution_id"


def _check_access(run: ProbeRun) -> Observation:
    response = run.free_response
    # The default 0 tells an absent transaction_id from null.
    free = response.status == 200 and parse_fields(response).get("transaction_id", 0) is None
    return judge(free, describe(response))


def _check_execution_id(run: ProbeRun) -> Observation:
    fields = parse_fields(run.free_response)
    others = fields.keys() - {"transaction_id", _ID_FIELD}
    identifier = fields.get(_ID_FIELD)
    valid = identifier is None or _is_execution_id(identifier)
    return judge(valid and not others, "with an id" if identifier else "without an id")


def _check_complete(run: ProbeRun) -> Observation:
    identifier = _create_execution(run)
    response = _complete_execution(run, identifier, METADATA)
    return judge(response.status == 200 and get_field(response, _ID_FIELD) == identifier, describe(response))


def _check_conflict(run: ProbeRun) -> Observation:
    identifier = _create_execution(run)
    _complete_execution(run, identifier, METADATA)
    response = _complete_execution(run, identifier, {**METADATA, "duration_ms": 2})
    return judge_error(response, 409, "resource_execution_conflict")


def _check_other_revision(run: ProbeRun) -> Observation:
    other = run.session.product.revision.revision_id
    response = _complete_execution(run, _create_execution(run), METADATA, other)
    return judge_error(response, 409, "revision_mismatch")


def _check_unknown(run: ProbeRun) -> Observation:
    revision = run.session.catalog.free or run.session.product.revision
    response = _complete_execution(run, make_unknown_id("rex"), METADATA, revision.revision_id)
    return judge_error(response, 404, "resource_execution_not_found")


def _create_execution(run: ProbeRun) -> str:
    """Create an execution and return its id. Raises `SkipCheck` if the service does not return it."""
    identifier = get_field(run.access_free(), _ID_FIELD)
    if not isinstance(identifier, str) or not _is_execution_id(identifier):
        raise SkipCheck("access returns no execution id")
    return identifier


def _complete_execution(
    run: ProbeRun, identifier: str, metadata: Mapping[str, object], revision_id: str | None = None
) -> Response:
    body = {"revision_id": revision_id or run.free_revision.revision_id, "resource_execution": metadata}
    return run.session.client.post(f"/resource-executions/{identifier}/complete", body)


def _is_execution_id(value: object) -> bool:
    return isinstance(value, str) and _EXECUTION_ID.fullmatch(value) is not None


CHECKS = (
    Check("free-access", "contract", "200, transaction_id null", _check_access),
    Check("free-execution-id", "decision", "no other field but the execution id", _check_execution_id),
    Check("execution-closed", "contract", "200, the same id", _check_complete),
    Check("execution-conflict", "contract", "409 resource_execution_conflict", _check_conflict),
    Check("execution-other-revision", "contract", "409 revision_mismatch", _check_other_revision),
    Check("execution-unknown", "contract", "404 resource_execution_not_found", _check_unknown),
)
