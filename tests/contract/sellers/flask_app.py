"""Flask: the extension, `require` on views (plain and async), a blueprint sold as a whole, a prefix."""

import asyncio
import time
from typing import Any

from flask import Blueprint, Flask, Response, redirect, request, send_file

from faregate.flask import Faregate, payment
from tests.contract import handlers
from tests.contract.handlers import Answer, Sold


def endpoint(place: str, sold: bool = True) -> Any:
    def view(**_parameters: str) -> Any:
        what = request.args.get("what", "")
        answer = handlers.work(place, what, payment if sold else None, request.get_data(), request.environ)
        time.sleep(answer.seconds)
        return native(answer)

    return view


def awaiting(place: str) -> Any:
    async def view(**_parameters: str) -> Any:
        await asyncio.sleep(0)
        return endpoint(place)()

    return view


def native(answer: Answer) -> Any:
    if answer.how == "redirect":
        return redirect(dict(answer.headers)["location"], answer.status)
    if answer.how == "file":
        return send_file(handlers.FILE, mimetype=answer.media_type)
    content = answer.stream() if answer.how == "stream" else answer.body
    response = Response(content, answer.status, mimetype=answer.media_type)
    for name, value in answer.headers:
        response.headers.add(name, value)
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    if answer.place:
        response.call_on_close(answer.later)
    return response


app = Flask(__name__)
app.config.update(
    FAREGATE_TIMEOUT=handlers.timeout(), FAREGATE_OFFERS=handlers.OFFERS, FAREGATE_REFUSE=[handlers.CLOSED]
)
paywall = Faregate(app)


def sell(sold: Sold, place: str, path: str, view: Any) -> None:
    priced = paywall.paid(sold.sells, **sold.limits)(view)
    app.add_url_rule(path, sold.name, priced, methods=[*handlers.METHODS])


for sold in handlers.SOLD:
    sell(sold, sold.path, sold.path, endpoint(sold.path))
sell(handlers.ITEM, handlers.ITEM.path, "/items/<item>", awaiting(handlers.ITEM.path))

inside = Blueprint("inside", __name__, url_prefix=handlers.MOUNT)
inside.add_url_rule(handlers.INNER.path, "paid", endpoint(handlers.MOUNT), methods=[*handlers.METHODS])
paywall.paid_all(inside, handlers.INNER.sells)
app.register_blueprint(inside)

for prefix in (handlers.GROUND, handlers.CLOSED):
    view = endpoint(prefix, sold=False)
    app.add_url_rule(f"{prefix}/<path:rest>", prefix.strip("/"), view, methods=[*handlers.METHODS])
app.add_url_rule("/open", "open", lambda: {"open": True}, methods=[*handlers.METHODS])
