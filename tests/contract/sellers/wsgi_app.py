"""WSGI and nothing else: handlers that open the gate themselves, `write()`, a prefix, a mount."""

import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from werkzeug.middleware.dispatcher import DispatcherMiddleware

from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, require_payment
from tests.contract import handlers
from tests.contract.handlers import ClosableBody

ROUTES = {sold.path: (sold.path, offer(sold.sells, **sold.limits)) for sold in handlers.SOLD}
ITEM = (handlers.ITEM.path, offer(handlers.ITEM.sells))
INNER = {handlers.INNER.path: (handlers.MOUNT, offer(handlers.INNER.sells))}


def seller(environ: Any, start_response: Any, routes: Any = ROUTES) -> Iterable[bytes]:
    if environ["REQUEST_METHOD"] == "HEAD":
        environ["REQUEST_METHOD"] = "GET"  # in place, as some frameworks do
    path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
    route = ITEM if path.startswith(handlers.ITEM.path) else routes.get(path)
    if route is not None:
        try:
            payment = require_payment(environ, route[1])
        except SkipHandler as stop:
            start_response(f"{stop.status} Stopped", [])
            return []
        return handler(route[0], payment, environ, start_response)
    if path.startswith((handlers.GROUND, handlers.CLOSED)):
        prefix = handlers.GROUND if path.startswith(handlers.GROUND) else handlers.CLOSED
        return handler(prefix, None, environ, start_response)
    start_response("200 OK" if path == "/open" else "404 Not Found", [("Content-Type", "application/json")])
    return [b'{"open": true}']


def inner(environ: Any, start_response: Any) -> Iterable[bytes]:
    return seller(environ, start_response, INNER)


def handler(place: str, payment: Any, environ: Any, start_response: Any) -> Iterable[bytes]:
    what = parse_qs(environ["QUERY_STRING"]).get("what", [""])[0]
    size = int(environ.get("CONTENT_LENGTH") or 0)
    answer = handlers.work(place, what, payment, environ["wsgi.input"].read(size), environ)
    time.sleep(answer.seconds)
    headers = [("Content-Type", answer.media_type), *answer.headers]
    headers += [("Set-Cookie", f"{name}={value}") for name, value in answer.cookies]
    write = start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
    if answer.how == "stream" and not answer.breaks_off:
        for chunk in answer.stream():
            write(chunk)
        return []
    return ClosableBody(answer)


grounds: Any = {"offers": handlers.OFFERS, "refuse": [handlers.CLOSED]}
mounted = DispatcherMiddleware(seller, {handlers.MOUNT: inner})
app = PaywallMiddleware(mounted, handlers.paywall(), **grounds)
