"""Falcon, a foreign WSGI framework: the gate as a `before` hook."""

import time
from http import HTTPStatus
from typing import Any

import falcon

from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, require_payment
from tests.contract import handlers
from tests.contract.handlers import Answer, ClosableBody, Sold


class Resource:
    """Sold to whoever asks, except where the gate is before the whole ground."""

    def __init__(self, place: str, sold: Sold | None = None) -> None:
        self.place = place
        self.offer = None if sold is None else offer(sold.sells, **sold.limits)

    def on_get(self, req: falcon.Request, resp: falcon.Response, **_parameters: str) -> None:
        payment = None
        if self.offer is not None:
            try:
                payment = require_payment(req.env, self.offer)
            except SkipHandler as stop:
                raise falcon.HTTPError(HTTPStatus(stop.status)) from None
        what = req.get_param("what", default="")
        answer = handlers.work(self.place, what, payment, req.bounded_stream.read())
        time.sleep(answer.seconds)
        native(answer, resp)

    on_post = on_get


class Head(Resource):
    """Falcon routes HEAD only to those who say so."""

    def on_head(self, req: falcon.Request, resp: falcon.Response, **parameters: str) -> None:
        self.on_get(req, resp, **parameters)


class Open:
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"open": True}

    on_post = on_get


def native(answer: Answer, resp: falcon.Response) -> None:
    resp.status, resp.content_type = HTTPStatus(answer.status), answer.media_type
    for name, value in answer.headers:
        resp.append_header(name, value)
    for name, value in answer.cookies:
        resp.set_cookie(name, value, secure=False)
    if answer.how == "file":
        resp.stream = handlers.FILE.open("rb")
    elif answer.how == "stream" or answer.place:
        resp.stream = ClosableBody(answer)
    else:
        resp.data = answer.body


seller = falcon.App()
for sold in handlers.SOLD:
    seller.add_route(sold.path, Head(sold.path, sold))
seller.add_route("/items/{item}", Head(handlers.ITEM.path, handlers.ITEM))
seller.add_route(handlers.MOUNT + handlers.INNER.path, Head(handlers.MOUNT, handlers.INNER))
seller.add_route(f"{handlers.GROUND}/{{rest:path}}", Resource(handlers.GROUND))
seller.add_route(f"{handlers.CLOSED}/{{rest:path}}", Resource(handlers.CLOSED))
seller.add_route("/open", Open())

grounds: Any = {"offers": handlers.OFFERS, "refuse": [handlers.CLOSED]}
app = PaywallMiddleware(seller, handlers.paywall(), **grounds)
