"""The HTTP server of the self-hosted service, with whichever service a test plugs in."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faregate.core.models import Response, WireRequest
from faregate.service.asgi import AppParts, ServiceApp
from faregate.service.callers import LoggedResponse
from faregate.service.commands.serve import build_server
from faregate.service.database.reports import PendingPayments
from faregate.service.metrics import ServiceMetrics
from faregate.service.operator_pages import OperatorParts, Readiness
from faregate.service.rate_limits import RateLimits
from faregate.system import get_url, open_listener, system_clock
from tests.support.waiting import eventually

from .services import MerchantService
from .sql_service import SqlService


class SqlSwitch:
    """Answers with whichever service is plugged in."""

    def __init__(self) -> None:
        self.plugged: SqlService | None = None
        self.told: list[tuple[WireRequest, Response]] = []

    def plug(self, service: MerchantService) -> None:
        assert isinstance(service, SqlService)
        service.serve()
        self.plugged = service

    def respond(self, request: WireRequest) -> Response:
        assert self.plugged is not None
        response = self.plugged.respond(request)
        self.told.append((request, response))
        return response


@contextmanager
def serve_app(respond: Callable[[WireRequest], Response]) -> Iterator[str]:
    """Serve the app of the self-hosted service; gives its URL."""
    parts = AppParts(
        respond=lambda request: LoggedResponse(respond(request)),
        show_console=respond,
        rate_limits=RateLimits(0, 0, time.monotonic),
        operator=OperatorParts(
            metrics=ServiceMetrics(
                clock=system_clock, read_pending=lambda: PendingPayments(0, 0, None), read_gas_balances=dict
            ),
            find_late=str,
            check_readiness=lambda: Readiness(True),
            begin=lambda: None,
            end=lambda: None,
        ),
        threads=2,
    )
    with open_listener() as listener:
        server = build_server(ServiceApp(parts), complete_seconds=1)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert eventually(lambda: server.started)
            yield get_url(listener)
        finally:
            server.should_exit = True
            thread.join()
