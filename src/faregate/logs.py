"""Log without ever raising: what the seller's logging does must not break a payment."""

import logging
import sys
import traceback
from contextlib import suppress

logger = logging.getLogger("faregate")


def log(level: int, message: str, *args: object, error: Exception | None = None) -> None:
    """Write to the logger `faregate`, with the traceback of `error` if there is one. Raises nothing.

    Where a filter or handler of the seller's logging raises, the message goes to standard error.
    """
    try:
        logger.log(level, message, *args, exc_info=error, stacklevel=2)
    except Exception as broken:
        with suppress(Exception):
            shown = "".join(traceback.format_exception(error)) if error else ""
            text = message % args if args else message
            sys.stderr.write(f"faregate: {text}\n{shown}(logging it failed: {broken!r})\n")
