"""Over HTTP/2 a body may come that no header announces."""

from collections.abc import Iterator

import httpx
from fastapi import Depends, FastAPI, Request

from faregate.emulator import Wallet
from faregate.fastapi import PaywallMiddleware, paid
from tests.attacks.servers import serving_on_hypercorn
from tests.attacks.site import make_paywall


def unannounced(body: bytes) -> Iterator[bytes]:
    yield body


def test_a_body_that_was_not_announced_is_not_taken_for_an_empty_one() -> None:
    app, runs = FastAPI(), list[bytes]()
    app.add_middleware(PaywallMiddleware, paywall=make_paywall())

    @app.post("/sold", dependencies=[Depends(paid("daily_report"))])
    async def sold(request: Request) -> str:
        runs.append(await request.body())
        return runs[-1].decode()

    with (
        serving_on_hypercorn(app) as url,
        httpx.Client(base_url=url, http1=False, http2=True, trust_env=False, timeout=20) as http,
    ):
        # On another connection: hypercorn ends one on which a part of a body comes after the response.
        unpaid = httpx.post(f"{url}/sold", trust_env=False)
        proof = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])}
        first = http.post("/sold", content=unannounced(b"mine"), headers=proof)
        again = http.post("/sold", content=b"mine", headers=proof)
    assert first.http_version == again.http_version == "HTTP/2"
    assert [(one.status_code, one.text) for one in (first, again)] == [(200, '"mine"')] * 2
    assert runs == [b"mine"]
