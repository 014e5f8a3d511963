"""A seller without a framework: a WSGI app whose files below /reports are paid for.

FAREGATE_BASE_URL=emulator: waitress-serve --listen=127.0.0.1:8000 --call app:make
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, require_payment

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REPORTS = {"/reports/today": "Sunny, with a chance of receipts.", "/reports/tomorrow": "Rain."}
METER = offer("token_meter")


def reports(path: str) -> tuple[HTTPStatus, str]:
    """Everything below /reports is one offer, said where the middleware is made."""
    if path not in REPORTS:
        return HTTPStatus.NOT_FOUND, "No such report. You were not charged."
    return HTTPStatus.OK, REPORTS[path]


def summary(environ: "WSGIEnvironment") -> tuple[HTTPStatus, str]:
    """A handler that sells itself, and reports what it measured."""
    payment = require_payment(environ, METER)
    words = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode().split()
    payment.report(input_tokens=len(words))
    return HTTPStatus.OK, " ".join(words[:5])


def answer(environ: "WSGIEnvironment") -> tuple[HTTPStatus, str]:
    path = environ["PATH_INFO"]
    if path.startswith("/reports/"):
        return reports(path)
    if path == "/summary":
        return summary(environ)
    if path == "/health":
        return HTTPStatus.OK, "ok"
    return HTTPStatus.NOT_FOUND, "There is nothing here."


def shop(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    try:
        status, text = answer(environ)
    except SkipHandler as stop:
        # Nobody sees this answer: the paywall sends its own in its place.
        status, text = HTTPStatus(stop.status), ""
    start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode()]


def make() -> "WSGIApplication":
    """The shop behind its paywall; `ConfigurationError` when a setting is missing."""
    return PaywallMiddleware(shop, offers={"/reports": "daily_report"})
