"""The two kinds of body (spec: Resources and their fields).

A *request* refuses properties the spec does not name. An *answer* tolerates them, and statuses it
does not know, because the service may grow: an unknown status is pending, never succeeded.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict

CLOSED: Final = ConfigDict(json_schema_extra={"additionalProperties": False})
"""For an answer that the spec says has no other properties: described so, but tolerated by the client."""


class RequestModel(BaseModel):
    """What we send: exactly the spec's properties, nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AnswerModel(BaseModel):
    """What the service says: unknown properties are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)
