"""Find the request time-out of the WSGI server that runs this process.

A server that kills a worker during a payment answers the payer with its own error, although the payment may
succeed. So a paid request must end before that.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

GUNICORN_SECONDS = 30.0


def find_server_timeout() -> float | None:
    """The seconds after which this server kills the worker of a request; None if never, or unknown."""
    if "uwsgi" in sys.modules:
        return _find_harakiri(getattr(sys.modules["uwsgi"], "opt", {}))
    if "gunicorn.arbiter" in sys.modules:
        return find_gunicorn_timeout([*shlex.split(os.environ.get("GUNICORN_CMD_ARGS", "")), *sys.argv[1:]])
    return None


def find_gunicorn_timeout(arguments: Sequence[str]) -> float | None:
    """The time-out in gunicorn's arguments; None if there is none, or a configuration file may set another.

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
