"""Find how many workers the server of this process runs.

Each server says it elsewhere, and the environment alone says nothing: `WEB_CONCURRENCY` is also set where no
server runs. So only what the server itself has read is believed.
"""

import sys
from collections.abc import Mapping
from inspect import currentframe
from multiprocessing import current_process
from typing import Any


def find_server_workers() -> int | None:
    """How many processes serve this application; None if unknown, as where no server runs."""
    if "uwsgi" in sys.modules:
        return _as_count(getattr(sys.modules["uwsgi"], "numproc", None))
    if "gunicorn.arbiter" in sys.modules:
        return _find_gunicorn_workers()
    return _find_spawned_workers()


def _find_gunicorn_workers() -> int | None:
    """Gunicorn forks its workers, and loads the application, in a method of its arbiter."""
    frame = currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "gunicorn.arbiter":
            settings: Any = getattr(frame.f_locals.get("self"), "cfg", None)
            return _as_count(getattr(settings, "workers", None))
        frame = frame.f_back
    return None


def _find_spawned_workers() -> int | None:
    """Uvicorn and Hypercorn start each worker as a process that is given their configuration."""
    given: Mapping[str, Any] = getattr(current_process(), "_kwargs", {})
    config = given.get("config")
    if type(config).__module__.partition(".")[0] not in ("uvicorn", "hypercorn"):
        return None
    if getattr(config, "should_reload", False):  # uvicorn's reloader starts one process
        return 1
    return _as_count(getattr(config, "workers", None))


def _as_count(value: object) -> int | None:
    return value if isinstance(value, int) else None
