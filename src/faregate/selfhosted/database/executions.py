"""Free executions: allowed work that nobody pays for."""

from typing import Final

from sqlalchemy import Connection, bindparam, insert, select, update

from faregate.merchant.models import ResourceExecutionMetadata
from faregate.selfhosted.database.clock import ACCOUNT
from faregate.selfhosted.database.schema import executions
from faregate.service.records import ExecutionRecord

_EXECUTION: Final = (executions.c.account == ACCOUNT) & (executions.c.id == bindparam("execution"))
_FIND_EXECUTION: Final = select(executions.c.id, executions.c.revision, executions.c.metadata).where(
    _EXECUTION
)
_RECORD_EXECUTION: Final = (
    update(executions)
    .where(_EXECUTION, executions.c.metadata.is_(None))
    .values(metadata=bindparam("accepted"))
)


def begin_execution(
    connection: Connection, account: int, execution_id: str, revision_id: str, now: int
) -> None:
    row = {"account": account, "id": execution_id, "revision": revision_id, "created_at": now}
    connection.execute(insert(executions), row)


def find_execution(connection: Connection, account: int, execution_id: str) -> ExecutionRecord | None:
    keys = {"of_account": account, "execution": execution_id}
    row = connection.execute(_FIND_EXECUTION, keys).one_or_none()
    if row is None:
        return None
    metadata = None if row.metadata is None else ResourceExecutionMetadata.model_validate_json(row.metadata)
    return ExecutionRecord(row.id, row.revision, metadata)


def record_execution(
    connection: Connection, account: int, execution_id: str, metadata: ResourceExecutionMetadata
) -> None:
    """Record the metadata, unless there is some."""
    keys = {"of_account": account, "execution": execution_id}
    connection.execute(_RECORD_EXECUTION, {**keys, "accepted": metadata.model_dump_json()})
