"""Log without ever raising: what the seller's logging does must not break a payment."""

import logging
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Literal

Area = Literal["events", "journal", "sale", "service", "settings", "sweep"]
"""What a message is about: `faregate.sale` is the logger of what concerns one payment, and so on."""


def get_logger(area: Area) -> logging.Logger:
    return logging.getLogger(f"faregate.{area}")


def log(
    area: Area,
    level: int,
    message: str,
    *args: object,
    error: Exception | None = None,
    fields: Mapping[str, object] | None = None,
) -> None:
    """Write to the logger of `area`, with the traceback of `error` if there is one. Raises nothing.

    `fields` become attributes of the record (`extra`). Where logging is not configured, a warning goes to
    standard error with its time, level and logger; Python would write the message alone. Where a filter or
    handler of the seller's logging raises, the message goes to standard error too.
    """
    logger = get_logger(area)
    try:
        if logger.hasHandlers():
            # `stacklevel` 2 names the caller's line in the record.
            logger.log(level, message, *args, exc_info=error, stacklevel=2, extra=fields)
        elif (last := logging.lastResort) is not None and max(
            last.level, logger.getEffectiveLevel()
        ) <= level:
            record = logging.LogRecord(logger.name, level, "", 0, message, args, _get_info(error))
            if logger.filter(record):
                _LAST_RESORT.handle(record)
    except Exception as broken:
        # Standard error may be closed.
        with suppress(Exception):
            shown = "".join(traceback.format_exception(error)) if error else ""
            text = message % args if args else message
            sys.stderr.write(f"faregate: {text}\n{shown}(logging it failed: {broken!r})\n")


class _StandardError(logging.Handler):
    """What Python's `logging.lastResort` is, with a format. It is added to no logger."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


_LAST_RESORT = _StandardError()
_LAST_RESORT.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def _get_info(
    error: Exception | None,
) -> tuple[type[Exception], Exception, TracebackType | None] | None:
    return None if error is None else (type(error), error, error.__traceback__)
