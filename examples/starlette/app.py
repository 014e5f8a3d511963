"""A seller on Starlette: functions, methods of a class, a mounted group, and a folder sold by its path.

FAREGATE_BASE_URL=emulator: uvicorn --app-dir examples/starlette app:app
"""

from pathlib import Path

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from faregate.starlette import PaywallMiddleware, paid

HERE = Path(__file__).parent


@paid("daily_report", description="Today's weather")
async def report(request: Request) -> JSONResponse:
    """Paid: the result leaves only when the payment is proven."""
    return JSONResponse({"report": f"{request.path_params['city']}: sunny, with a chance of receipts."})


class Summary(HTTPEndpoint):
    """How it works is free, and the work is paid."""

    async def get(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse("POST a text, and get its first five words.")

    @paid("token_meter")
    async def post(self, request: Request) -> JSONResponse:
        """Reports what it measured."""
        words = (await request.body()).decode().split()
        request.state.payment.report(input_tokens=len(words))
        return JSONResponse({"summary": " ".join(words[:5])})


async def health(request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


app = Starlette(
    routes=[
        Mount("/weather", routes=[Route("/{city}", report)]),
        Route("/summary", Summary),
        Mount("/library", app=StaticFiles(directory=HERE / "library")),
        Route("/health", health),
    ],
    middleware=[
        # Outside, so that a preflight needs no payment; a browser may read the payment headers.
        Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"]),
        # Innermost: what stands outside never sees a result that is not paid.
        Middleware(PaywallMiddleware, offers={"/library": "text_summary"}, refuse=["/weather"]),
    ],
)
