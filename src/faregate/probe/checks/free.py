"""Free access, and the execution it creates (spec: rules 3 and 9; the decision that its id may be told)."""

import json
import re
from collections.abc import Mapping
from typing import cast

from faregate.core.models import Response
from faregate.merchant.types import ID_TAIL
from faregate.probe.fixtures import Visit
from faregate.probe.session import METADATA, unknown_id
from faregate.probe.verdicts import CannotSee, Check, Seen, judged, refused, said, shown

_EXECUTION = re.compile(f"rex_{ID_TAIL}", re.ASCII)
_TOLD = "resource_execution_id"


def _access(visit: Visit) -> Seen:
    reply = visit.freed
    return judged(reply.status == 200 and _fields(reply).get("transaction_id", 0) is None, shown(reply))


def _execution_id(visit: Visit) -> Seen:
    fields = _fields(visit.freed)
    others = fields.keys() - {"transaction_id", _TOLD}
    told = fields.get(_TOLD)
    formed = told is None or (isinstance(told, str) and _EXECUTION.fullmatch(told) is not None)
    return judged(formed and not others, "told" if told else "not told")


def _closed(visit: Visit) -> Seen:
    identifier = _execution(visit)
    reply = _close(visit, identifier, METADATA)
    return judged(reply.status == 200 and said(reply, _TOLD) == identifier, shown(reply))


def _conflict(visit: Visit) -> Seen:
    identifier = _execution(visit)
    _close(visit, identifier, METADATA)
    reply = _close(visit, identifier, {**METADATA, "duration_ms": 2})
    return refused(reply, 409, "resource_execution_conflict")


def _other_revision(visit: Visit) -> Seen:
    identifier = _execution(visit)
    reply = _close(visit, identifier, METADATA, visit.bench.ware.revision.revision_id)
    return refused(reply, 409, "revision_mismatch")


def _unknown(visit: Visit) -> Seen:
    revision = visit.bench.market.free or visit.bench.ware.revision
    reply = _close(visit, unknown_id("rex"), METADATA, revision.revision_id)
    return refused(reply, 404, "resource_execution_not_found")


def _execution(visit: Visit) -> str:
    """A new execution. Raises `CannotSee` if its id is not told."""
    told = said(visit.free_access(), _TOLD)
    if not isinstance(told, str) or not _EXECUTION.fullmatch(told):
        raise CannotSee("access tells no execution id")
    return told


def _close(
    visit: Visit, identifier: str, metadata: Mapping[str, object], revision_id: str | None = None
) -> Response:
    body = {"revision_id": revision_id or visit.free.revision_id, "resource_execution": metadata}
    return visit.bench.line.post(f"/resource-executions/{identifier}/complete", body)


def _fields(reply: Response) -> dict[str, object]:
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        body = None
    return cast("dict[str, object]", body) if isinstance(body, dict) else {}


CHECKS = (
    Check("free-access", "contract", "200, transaction_id null", _access),
    Check("free-execution-id", "decision", "nothing else, or the id of the execution", _execution_id),
    Check("execution-closed", "contract", "200, the same id", _closed),
    Check("execution-conflict", "contract", "409 resource_execution_conflict", _conflict),
    Check("execution-other-revision", "contract", "409 revision_mismatch", _other_revision),
    Check("execution-unknown", "contract", "404 resource_execution_not_found", _unknown),
)
