"""Who is told what happens: the seller's listener, and what must survive a journal that is down."""

import json
import logging
import os
from collections.abc import Callable

from faregate.errors import Misconfigured
from faregate.events import Event

Listener = Callable[[Event], object]
"""Called with each event, in the thread or loop of the request. It must not block."""

logger = logging.getLogger("faregate")


class Voice:
    """`on_event` is told every event. Ids of last resort go to the log, and to the file `last_resort`."""

    def __init__(self, on_event: Listener | None = None, last_resort: str = "") -> None:
        if on_event is not None and not callable(on_event):
            raise Misconfigured("on_event must be something that can be called with an event.")
        self._on_event = on_event
        self._file = last_resort

    def tell(self, event: Event) -> None:
        """What a listener raises is logged, and changes nothing."""
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            logger.exception("a listener failed on %s", type(event).__name__)

    def last_resort(self, transaction_id: str, revision_id: str) -> None:
        """Access granted this transaction, and the journal does not know."""
        line = json.dumps({"transaction_id": transaction_id, "revision_id": revision_id})
        logger.critical("the journal could not write down an open transaction: %s", line)
        if not self._file:
            return
        try:
            _append(self._file, line)
        except OSError as error:
            logger.critical("nor could the file of last resort: %s", error)


def _append(path: str, line: str) -> None:
    """One line in one write, on the disk when this returns."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
