"""`faregate service work`: settlement workers in a process of their own."""

import signal
import threading
from argparse import Namespace

from faregate.errors import ConfigurationError
from faregate.selfhosted.backends import MakeBackend
from faregate.selfhosted.books import open_books, read_command_settings
from faregate.selfhosted.log_format import configure_logging
from faregate.selfhosted.payment_lines import build_lines
from faregate.selfhosted.runtime import Runtime
from faregate.selfhosted.settings import Settings
from faregate.service.steps import Backend


def run_work(arguments: Namespace) -> int:
    """Settle payments until SIGINT or SIGTERM."""
    return work(read_command_settings(arguments))


def work(settings: Settings, *, make_backend: MakeBackend = Backend) -> int:
    """Work with these settings; tests that watch steps give `make_backend`."""
    if settings.workers == 0:
        raise ConfigurationError("--workers is 0, so nothing would be settled: give 1 or more.")
    configure_logging(settings.log_format, settings.log_level)
    lines = build_lines(settings)
    asked_to_end = threading.Event()

    def end(*_: object) -> None:
        asked_to_end.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with open_books(settings, pool_size=settings.workers + 2) as books:
        runtime = Runtime(settings, books, lines, make_backend=make_backend)
        runtime.check_recipients()
        runtime.warn_of_unserved()
        runtime.begin()
        if settings.metrics_port is not None:
            runtime.metrics.serve(settings.host, settings.metrics_port)
        print(f"{settings.workers} workers settle payments (stop them with Ctrl-C).", flush=True)
        asked_to_end.wait()
        runtime.end()
    for line in lines.values():
        line.close()
    return 0
