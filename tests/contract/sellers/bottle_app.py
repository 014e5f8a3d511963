"""Bottle, a foreign WSGI framework: the decorator of docs/adapters/your-own.md, and a mount."""

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import bottle

from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, require_payment
from tests.contract import handlers
from tests.contract.handlers import Answer, Sold


def paid(sells: Any, **limits: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    sold = offer(sells, **limits)

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(handler)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                bottle.request.environ["payment"] = require_payment(bottle.request.environ, sold)
            except SkipHandler as stop:
                raise bottle.HTTPResponse(status=stop.status) from None
            return handler(*args, **kwargs)

        return guarded

    return decorate


class Closing:
    """What Bottle closes when the response is over."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.chunks = answer.stream()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> bytes:
        return next(self.chunks)

    def close(self) -> None:
        self.answer.later()


def endpoint(place: str) -> Callable[..., Any]:
    def handler(**_parameters: str) -> Any:
        request = bottle.request
        payment = request.environ.get("payment")
        answer = handlers.work(place, request.query.get("what", ""), payment, request.body.read())
        time.sleep(answer.seconds)
        return native(answer)

    return handler


def native(answer: Answer) -> Any:
    if answer.how == "redirect":
        bottle.redirect(dict(answer.headers)["location"], answer.status)
    if answer.how == "file":
        return bottle.static_file(handlers.FILE.name, str(handlers.FILE.parent), mimetype=answer.media_type)
    response = bottle.response
    response.status = answer.status
    response.content_type = answer.media_type
    for name, value in answer.headers:
        response.add_header(name, value)
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    if answer.place:
        return Closing(answer)
    body: bytes | Iterable[bytes] = answer.stream() if answer.how == "stream" else answer.body
    return body


def sell(app: bottle.Bottle, sold: Sold, place: str, path: str | None = None) -> None:
    app.route(path or sold.path, [*handlers.METHODS], paid(sold.sells, **sold.limits)(endpoint(place)))


seller, inside = bottle.Bottle(), bottle.Bottle()
for sold in handlers.SOLD:
    sell(seller, sold, sold.path)
sell(seller, handlers.ITEM, handlers.ITEM.path, "/items/<item>")
sell(inside, handlers.INNER, handlers.MOUNT)
seller.mount(f"{handlers.MOUNT}/", inside)
seller.route(f"{handlers.GROUND}/<rest:path>", [*handlers.METHODS], endpoint(handlers.GROUND))
seller.route(f"{handlers.CLOSED}/<rest:path>", [*handlers.METHODS], endpoint(handlers.CLOSED))
seller.route("/open", [*handlers.METHODS], lambda: {"open": True})

grounds: Any = {"offers": handlers.OFFERS, "refuse": [handlers.CLOSED]}
app = PaywallMiddleware(seller, handlers.paywall(), **grounds)
