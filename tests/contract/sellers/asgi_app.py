"""ASGI and nothing else: handlers that open the gate themselves, and a prefix."""

from typing import Any
from urllib.parse import parse_qs

import anyio

from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from tests.contract import handlers

ROUTES = {sold.path: (sold.path, offer(sold.sells, **sold.limits)) for sold in handlers.SOLD}
ROUTES[handlers.MOUNT + handlers.INNER.path] = (handlers.MOUNT, offer(handlers.INNER.sells))
ITEM = (handlers.ITEM.path, offer(handlers.ITEM.sells))


async def seller(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    if scope["method"] == "HEAD":
        scope["method"] = "GET"  # in place, as some frameworks do
    path: str = scope["path"]
    route = ITEM if path.startswith(handlers.ITEM.path) else ROUTES.get(path)
    if route is not None:
        try:
            payment = await require_payment(scope, route[1])
        except SkipHandler:
            return
        await handler(route[0], payment, scope, receive, send)
    elif path.startswith((handlers.GROUND, handlers.CLOSED)):
        prefix = handlers.GROUND if path.startswith(handlers.GROUND) else handlers.CLOSED
        await handler(prefix, None, scope, receive, send)
    else:
        status = 200 if path == "/open" else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b'{"open": true}'})


async def handler(place: str, payment: Any, scope: Any, receive: Any, send: Any) -> None:
    what = parse_qs(scope["query_string"].decode()).get("what", [""])[0]
    answer = handlers.work(place, what, payment, await whole(receive))
    await anyio.sleep(answer.seconds)
    pairs = [("content-type", answer.media_type), *answer.headers]
    pairs += [("set-cookie", f"{name}={value}") for name, value in answer.cookies]
    headers = [(name.lower().encode(), value.encode()) for name, value in pairs]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    for chunk in answer.stream():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    if answer.place:
        answer.later()


async def whole(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("half a request")
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def lifespan(receive: Any, send: Any) -> None:
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


grounds: Any = {"offers": handlers.OFFERS, "refuse": [handlers.CLOSED]}
app = PaywallMiddleware(seller, handlers.paywall(), **grounds)
