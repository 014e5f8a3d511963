"""What an audit tried and could not break, and nothing else tested."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import anyio
import pytest
from fastapi import Depends, FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import faregate.fastapi
from faregate.emulator import Emulator, Wallet
from faregate.errors import BadAnswer
from faregate.merchant.interpret import parse_completion
from faregate.starlette import PaywallMiddleware, paid
from tests.adapters.asgi import CONTENT, a_paywall, header
from tests.audit.purchases import BACKENDS, asked, bought, outcomes
from tests.core.replies import COMPLETED, SOLD


def shop_of(endpoint: Any, emulator: Emulator) -> Any:
    paywall = a_paywall(emulator, public_url="https://seller.example")
    middleware = [Middleware(PaywallMiddleware, paywall=paywall)]
    return Starlette(routes=[Route("/", endpoint)], middleware=middleware)


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_that_ends_at_its_limit_is_either_sold_or_failed(backend: str) -> None:
    """The deadline and the last body message race: never released and failed, never neither."""

    @paid("daily_report", max_work_seconds=0.02)
    async def tight(request: Request) -> Response:
        await anyio.sleep(0.02)
        return PlainTextResponse(CONTENT)

    async def main() -> None:
        for _ in range(20):
            emulator = Emulator()
            status, body = await bought(shop_of(tight, emulator))
            sold = status == 200
            assert outcomes(emulator) == ["succeeded" if sold else "failed"]
            assert (CONTENT.encode() in body) == sold

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_handler_that_swallows_its_cut_off_sells_nothing(backend: str) -> None:
    @paid("daily_report", max_work_seconds=0.05)
    async def stubborn(request: Request) -> Response:
        try:
            await anyio.sleep(5)
        except BaseException:  # as some drivers do
            return PlainTextResponse(CONTENT)
        return PlainTextResponse(CONTENT)

    sells_nothing(stubborn, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thread_that_cannot_be_cut_off_sells_nothing_when_it_is_late(backend: str) -> None:
    @paid("daily_report", max_work_seconds=0.05)
    def late(request: Request) -> Response:
        time.sleep(0.2)
        return PlainTextResponse(CONTENT)

    sells_nothing(late, backend)


def sells_nothing(handler: Any, backend: str) -> None:
    async def main() -> None:
        emulator = Emulator()
        status, body = await bought(shop_of(handler, emulator))
        assert (status, CONTENT.encode() in body) == (500, False)
        assert outcomes(emulator) == ["failed"]

    anyio.run(main, backend=backend)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: body.decode().encode("utf-16"),
        lambda body: body.replace(b'"schema_version":1', b'"schema_version":NaN'),
        lambda body: body + b"{}",
        lambda body: body[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=["byte order mark", "utf-16", "NaN", "two documents", "deep"],
)
def test_odd_json_proves_nothing(change: Callable[[bytes], bytes]) -> None:
    odd = change(COMPLETED.body)
    assert odd != COMPLETED.body
    with pytest.raises(BadAnswer):
        parse_completion(replace(COMPLETED, body=odd), SOLD)


class Summary(BaseModel):
    words: int


def test_what_goes_wrong_in_fastapi_after_the_gate_is_not_charged() -> None:
    emulator = Emulator()
    sold = Depends(faregate.fastapi.paid("daily_report"))
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall(emulator))
    app.add_api_route("/model", lambda: {"words": "many"}, response_model=Summary, dependencies=[sold])

    @app.get("/query", dependencies=[sold])
    async def query(q: int) -> str:
        return CONTENT

    async def main() -> None:
        assert (await bought(app, "/query"))[0] == 422
        with pytest.raises(Exception, match="validation error"):
            await bought(app, "/model")
        assert outcomes(emulator) == ["failed", "failed"]

    anyio.run(main)


def test_a_dependency_that_fails_on_its_way_out_changes_nothing_sold() -> None:
    emulator = Emulator()
    sold = Depends(faregate.fastapi.paid("daily_report"))

    async def resource() -> Any:
        yield 1
        raise RuntimeError("on the way out")

    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall(emulator))

    @app.get("/", dependencies=[sold])
    async def endpoint(_number: Annotated[int, Depends(resource)]) -> str:
        return CONTENT

    async def main() -> None:
        proof = Wallet().pay(header(await asked(app, "/"), b"payment-required"))
        with pytest.raises(RuntimeError, match="on the way out"):
            await asked(app, "/", proof)
        assert outcomes(emulator) == ["succeeded"]
        again = await asked(app, "/", proof)
        assert (again[0]["status"], CONTENT.encode() in again[1]["body"]) == (200, True)

    anyio.run(main)
