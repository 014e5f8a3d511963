"""FastAPI: `Depends(paid(...))` on routes; a router inside a mounted sub-application."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from faregate.fastapi import Payment, PaywallMiddleware, paid
from tests.contract import handlers
from tests.contract.handlers import Sold
from tests.contract.sellers.starlette_app import native

METHODS: list[Any] = ["GET", "HEAD", "POST"]


def choose(request: Request) -> str | None:
    """A dependency: FastAPI reads its parameters."""
    return handlers.choose(request)


def endpoint(sold: Sold, place: str) -> Any:
    sells = paid(choose if callable(sold.sells) else sold.sells, **sold.limits)

    async def handler(
        request: Request, tasks: BackgroundTasks, payment: Annotated[Payment, Depends(sells)], what: str = ""
    ) -> Response:
        answer = handlers.work(place, what, payment, await request.body())
        await asyncio.sleep(answer.seconds)
        if answer.place:
            tasks.add_task(answer.later)
            return JSONResponse({"result": handlers.CONTENT})
        return native(answer)

    return handler


app = FastAPI()
app.add_middleware(PaywallMiddleware, paywall=handlers.paywall())
for sold in handlers.SOLD:
    app.add_api_route(sold.path, endpoint(sold, sold.path), methods=METHODS)
app.add_api_route("/items/{item}", endpoint(handlers.ITEM, handlers.ITEM.path), methods=METHODS)

router, inside = APIRouter(prefix="/inner"), FastAPI()
router.add_api_route(handlers.INNER.path, endpoint(handlers.INNER, handlers.MOUNT), methods=METHODS)
inside.include_router(router)
app.mount("/mount", inside)


@app.api_route("/open", methods=METHODS)
async def opened() -> dict[str, bool]:
    return {"open": True}
