"""Log lines for people or, one JSON object each, for machines.

No line has proofs, keys, queries or bodies: what is logged of a request is its operation, status and time,
its account, the id of its key and its transaction.
"""

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal

FIELDS: Final = "faregate"
"""The attribute of a record that holds the fields of a structured line."""
_contexts: ContextVar[tuple[Mapping[str, object], ...]] = ContextVar("faregate_log_fields", default=())


@contextmanager
def log_context(fields: Mapping[str, object]) -> Generator[None]:
    """Add these fields, as they then are, to each line that is logged in the block, and in what it starts."""
    token = _contexts.set((*_contexts.get(), fields))
    try:
        yield
    finally:
        _contexts.reset(token)


def _get_fields(record: logging.LogRecord) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for fields in (*_contexts.get(), getattr(record, FIELDS, {})):
        merged |= fields
    return merged


def configure_logging(log_format: Literal["text", "json"], level: str) -> None:
    """Write the logs of faregate and of what it uses to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("faregate").setLevel(level.upper())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_get_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is logging's
        fields = _get_fields(record)
        shown = "".join(f" {name}={value}" for name, value in fields.items() if value is not None)
        return super().formatMessage(record) + shown
