"""Find how the server that runs this process is configured: its request time-out, its workers and threads.

A server that kills a worker during a payment answers the payer with its own error, although the payment may
succeed. So a paid request must end before that. The number of workers tells whether they share a journal.

Each server says both elsewhere, and the environment alone says nothing: `WEB_CONCURRENCY` is also set where
no server runs. So only what the server itself has read is believed.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import currentframe
from multiprocessing import current_process
from typing import Any, cast

GUNICORN_SECONDS = 30.0


def find_server_timeout() -> float | None:
    """Find the seconds after which this server kills the worker of a request; None if never, or unknown."""
    if "uwsgi" in sys.modules:
        return _find_harakiri(getattr(sys.modules["uwsgi"], "opt", {}))
    if "gunicorn.arbiter" in sys.modules:
        return find_gunicorn_timeout([*shlex.split(os.environ.get("GUNICORN_CMD_ARGS", "")), *sys.argv[1:]])
    return None


def find_gunicorn_timeout(arguments: Sequence[str]) -> float | None:
    """Find the time-out in gunicorn's arguments; None if there is none, or a file may set another.

    Only sync workers are killed because of one request: others show that they live while a request runs.
    """
    import argparse  # only gunicorn's workers need it, and gunicorn has loaded it

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-t", "--timeout", type=float, default=GUNICORN_SECONDS)
    parser.add_argument("-k", "--worker-class", default="sync")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-c", "--config", default="./gunicorn.conf.py")
    try:
        options, _ = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return None
    file = str(options.config).removeprefix("file:")
    if options.worker_class != "sync" or options.threads > 1 or os.path.exists(file) or ":" in file:
        return None
    return options.timeout or None


def _find_harakiri(options: object) -> float | None:
    value = cast("dict[str, object]", options).get("harakiri") if isinstance(options, dict) else None
    with suppress(ValueError, TypeError):
        return float(value.decode() if isinstance(value, bytes) else str(value)) or None
    return None


def find_forced_root() -> str:
    """Find the root path that Django puts in place of the server's (FORCE_SCRIPT_NAME); "" if none."""
    settings: Any = getattr(sys.modules.get("django.conf"), "settings", None)
    return (settings.FORCE_SCRIPT_NAME or "").rstrip("/") if getattr(settings, "configured", False) else ""


def lets_clients_set_root() -> bool:
    """Return whether this server takes the root path from a header of any client: Daphne-Root-Path."""
    return "daphne" in sys.modules


def has_server_threads() -> bool:
    """Return whether this server gets the messages of ASGI requests from threads beside the event loop."""
    return "granian" in sys.modules


def find_server_workers() -> int | None:
    """Find how many processes serve this application; None if unknown, as where no server runs."""
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
    process_arguments: Mapping[str, Any] = getattr(current_process(), "_kwargs", {})
    config = process_arguments.get("config")
    if type(config).__module__.partition(".")[0] not in ("uvicorn", "hypercorn"):
        return None
    if getattr(config, "should_reload", False):  # uvicorn's reloader starts one process
        return 1
    return _as_count(getattr(config, "workers", None))


def _as_count(value: object) -> int | None:
    return value if isinstance(value, int) else None
