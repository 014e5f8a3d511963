"""FastAPI: `Depends(paid(...))` on routes; a router inside a mounted sub-application."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Request
from starlette.responses import JSONResponse, Response

from faregate.fastapi import Payment, PaywallMiddleware, paid
from tests.contract import work
from tests.contract.shops.starlette_shop import native
from tests.contract.work import Sold

METHODS: list[Any] = ["GET", "HEAD", "POST"]


def endpoint(sold: Sold, place: str) -> Any:
    sells = paid(sold.sells, **sold.limits)

    async def handler(
        request: Request,
        tasks: BackgroundTasks,
        payment: Annotated[Payment, Depends(sells)],
        what: str = "",
    ) -> Response:
        answer = work.work(place, what, payment, await request.body())
        await asyncio.sleep(answer.seconds)
        if answer.place:
            tasks.add_task(answer.later)
            return JSONResponse({"result": work.CONTENT})
        return native(answer)

    return handler


app = FastAPI()
app.add_middleware(PaywallMiddleware, paywall=work.paywall())
for sold in work.SOLD:
    app.add_api_route(sold.path, endpoint(sold, sold.path), methods=METHODS)
app.add_api_route("/items/{item}", endpoint(work.ITEM, work.ITEM.path), methods=METHODS)

router, inside = APIRouter(prefix="/inner"), FastAPI()
router.add_api_route(work.INNER.path, endpoint(work.INNER, work.MOUNT), methods=METHODS)
inside.include_router(router)
app.mount("/mount", inside)


@app.api_route("/open", methods=METHODS)
async def opened() -> dict[str, bool]:
    return {"open": True}
