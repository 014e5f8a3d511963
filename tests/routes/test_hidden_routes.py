"""What the seller keeps out of its own documents, by `include_in_schema=False`, is in none of ours."""

from collections.abc import Generator
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.starlette
from faregate import build_llms_text, build_openapi
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.support.headers import decode_header


@pytest.fixture(autouse=True)
def _service(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    with serve(Emulator()) as service:
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        monkeypatch.setenv("FAREGATE_BASE_URL", service)
        monkeypatch.setenv("FAREGATE_PUBLIC_URL", "https://seller.example")
        monkeypatch.setenv("FAREGATE_DISCOVERY", "1")
        yield


@faregate.starlette.paid("daily_report")
async def report(request: Request) -> JSONResponse:
    return JSONResponse({})


@faregate.starlette.paid("text_summary")
async def hidden(request: Request) -> JSONResponse:
    return JSONResponse({})


def make_starlette() -> Starlette:
    below = [Route("/hidden", hidden, include_in_schema=False)]
    return Starlette(
        routes=[Route("/report", report), *below, Mount("/below", routes=below)],
        middleware=[Middleware(faregate.starlette.PaywallMiddleware)],
    )


def make_fastapi() -> FastAPI:
    app, router, below = FastAPI(), APIRouter(include_in_schema=False), APIRouter()
    app.add_middleware(faregate.fastapi.PaywallMiddleware)
    sold, other = ([Depends(faregate.fastapi.paid(key))] for key in ("daily_report", "text_summary"))

    async def give() -> dict[str, str]:
        return {}

    app.get("/report", dependencies=sold)(give)
    app.get("/hidden", dependencies=other, include_in_schema=False)(give)
    router.get("/hidden", dependencies=other)(give)
    below.get("/hidden", dependencies=other)(give)
    app.include_router(router, prefix="/below")
    app.include_router(below, prefix="/included", include_in_schema=False)
    return app


HIDDEN = [
    (make_starlette, "/hidden"),
    (make_starlette, "/below/hidden"),
    (make_fastapi, "/hidden"),
    (make_fastapi, "/below/hidden"),
    (make_fastapi, "/included/hidden"),
]


def find_extensions(app: Any, path: str) -> Any:
    answer = TestClient(app).get(path)
    assert answer.status_code == 402
    return decode_header(answer.headers["payment-required"]).get("extensions")


@pytest.mark.parametrize(("make", "path"), HIDDEN)
def test_a_402_of_a_hidden_route_describes_it_to_no_catalogue(make: Any, path: str) -> None:
    app = make()
    assert find_extensions(app, "/report") is not None
    assert find_extensions(app, path) is None


@pytest.mark.parametrize("make", [make_starlette, make_fastapi])
def test_llms_text_does_not_list_it(make: Any) -> None:
    text = build_llms_text(make(), "Weather")
    assert "/report" in text
    assert "hidden" not in text


def test_a_document_does_not_list_it() -> None:
    assert [*build_openapi(make_starlette(), "Weather")["paths"]] == ["/report"]
