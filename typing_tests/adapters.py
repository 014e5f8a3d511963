"""What a type checker must make of the adapters. Checked, never run."""

from typing import Annotated, Any, assert_type

from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import faregate.asgi
import faregate.fastapi
import faregate.starlette
from faregate import Paywall
from faregate.cli.routes import format_as_text
from faregate.fastapi import Payment, RequirePayment
from faregate.routes import RouteTable

app = FastAPI()
app.add_middleware(faregate.fastapi.PaywallMiddleware, public_url="https://seller.example")
app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=Paywall(), refuse=["/private"])


@app.get("/summary")
async def summary(payment: Annotated[Payment, Depends(faregate.fastapi.paid("text_summary"))]) -> str:
    assert_type(payment.transaction_id, str | None)
    payment.report(input_tokens=3)
    payment.report({"input-tokens": 3}, output_tokens="1.5")
    return "short"


@faregate.starlette.paid("daily_report", asset="USDC", mime_type="text/plain", max_work_seconds=10)
async def report(request: Request) -> Response:
    return PlainTextResponse("Sunny.")


shop = Starlette(
    middleware=[Middleware(faregate.starlette.PaywallMiddleware, offers={"/reports": "daily_report"})]
)
plain = faregate.asgi.PaywallMiddleware(shop, offers={"/reports": "daily_report"}, refuse=["/"])

assert_type(faregate.fastapi.paid("text_summary"), RequirePayment)
assert_type(faregate.fastapi.list_routes(app), RouteTable)
assert_type(format_as_text(faregate.starlette.list_routes(shop)), str)
assert_type(faregate.fastapi.add_openapi(app), None)


class Summary(HTTPEndpoint):
    @faregate.starlette.paid("text_summary")
    def post(self, request: Request) -> Response:
        assert_type(request.state.payment, Any)
        return PlainTextResponse("Short.")


def sold(endpoint: Summary, request: Request) -> None:
    assert_type(endpoint.post(request), Response)
