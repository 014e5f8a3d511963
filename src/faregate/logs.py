"""Log without ever raising: what the seller's logging does must not break a payment."""

import logging
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
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

    `fields` become attributes of the record (`extra`). Where a filter or handler of the seller's logging
    raises, the message goes to standard error.
    """
    try:
        # `stacklevel` 2 names the caller's line in the record.
        get_logger(area).log(level, message, *args, exc_info=error, stacklevel=2, extra=fields)
    except Exception as broken:
        # Standard error may be closed.
        with suppress(Exception):
            shown = "".join(traceback.format_exception(error)) if error else ""
            text = message % args if args else message
            sys.stderr.write(f"faregate: {text}\n{shown}(logging it failed: {broken!r})\n")
