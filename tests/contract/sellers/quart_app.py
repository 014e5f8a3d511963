"""Quart, a foreign ASGI framework: a decorator over `require_payment`, and a blueprint."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from quart import Blueprint, Quart, Response, abort, redirect, request, send_file

from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from tests.contract import handlers
from tests.contract.handlers import Answer, Sold


def paid(sells: Any, **limits: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    sold = offer(sells, **limits)

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(handler)
        async def guarded(**parameters: str) -> Any:
            try:
                payment = await require_payment(request.scope, sold)
            except SkipHandler as stop:
                abort(Response(status=stop.status))
            return await handler(payment, **parameters)

        return guarded

    return decorate


def endpoint(place: str) -> Callable[..., Any]:
    async def handler(payment: Any, **_parameters: str) -> Any:
        body: Any = await request.get_data()
        answer = handlers.work(place, request.args.get("what", ""), payment, body)
        await asyncio.sleep(answer.seconds)
        return await native(answer)

    return handler


async def native(answer: Answer) -> Any:
    if answer.how == "redirect":
        return redirect(dict(answer.headers)["location"], answer.status)
    if answer.how == "file":
        return await send_file(handlers.FILE, mimetype=answer.media_type)
    whole = answer.how == "whole"
    content: Any = answer.body if whole else streamed(answer)
    response = Response(content, answer.status, mimetype=answer.media_type)
    for name, value in answer.headers:
        response.headers.add(name, value)
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    return response


async def streamed(answer: Answer) -> AsyncIterator[bytes]:
    for chunk in answer.stream():
        yield chunk


def sell(where: Any, sold: Sold, place: str, path: str | None = None) -> None:
    view = paid(sold.sells, **sold.limits)(endpoint(place))
    where.add_url_rule(path or sold.path, sold.name, view, methods=[*handlers.METHODS])


seller, inside = Quart(__name__), Blueprint("inside", __name__, url_prefix=handlers.MOUNT)
for sold in handlers.SOLD:
    sell(seller, sold, sold.path)
sell(seller, handlers.ITEM, handlers.ITEM.path, "/items/<item>")
sell(inside, handlers.INNER, handlers.MOUNT)
seller.register_blueprint(inside)


@seller.route("/open", methods=[*handlers.METHODS])
async def opened() -> dict[str, bool]:
    return {"open": True}


app = PaywallMiddleware(seller, handlers.paywall())
