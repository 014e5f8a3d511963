"""The two kinds of body (spec: Resources and their fields).

A *request* refuses properties the spec does not name. An *answer* tolerates them, and statuses it
does not know, because the service may grow: an unknown status is pending, never succeeded.
"""

from pydantic import BaseModel, ConfigDict


class RequestModel(BaseModel):
    """What we send: exactly the spec's properties, nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AnswerModel(BaseModel):
    """What the service says: unknown properties are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)
