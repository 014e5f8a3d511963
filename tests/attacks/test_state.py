"""Nothing that a paid handler wrote beside its response leaves, or is kept, unless its result is released."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import werkzeug.test
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from faregate.checkout.snapshot import LARGE
from faregate.emulator import Wallet
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import BESIDE, RESPONSE, Content
from tests.attacks.report import figures
from tests.attacks.site import Target, make_paywall
from tests.attacks.sites.wsgi_sites import plain_site
from tests.support.waiting import eventually

UNPAID = {"rejected": 402, "slow": 202, "expires": 202}
"""Test payers whose payment does not prove itself at once, and what they are answered."""


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("payer", UNPAID)
def test_a_payment_that_is_not_proven_gets_nothing(target: Target, payer: str, known: bool) -> None:
    with target.attacker() as attacker:
        if known:
            attacker.get("/start")
        assert attacker.pay("/sold", Wallet.test(payer)).status_code == UNPAID[payer]
        attacker.look_around()
        leaks = target.content.found_in(attacker.loot)
    assert target.content.runs == 1
    figures.count("state with a payment that is not proven", leaks)
    assert leaks == frozenset()


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("then", ["404", "500", "raise"])
def test_an_answer_that_nobody_is_charged_for_leaves_without_state(
    target: Target, then: str, known: bool
) -> None:
    """Its status, headers and body may leave."""
    with target.attacker() as attacker:
        if known:
            attacker.get("/start")
        answer = attacker.pay(f"/sold?then={then}", Wallet())
        assert answer.status_code == (500 if then == "raise" else int(then))
        assert target.content.mark("body") in answer.text or then == "raise"
        attacker.look_around()
        leaks = target.content.found_in(attacker.loot) - RESPONSE
    assert target.content.runs == 1
    figures.count("state with an answer that is not charged", leaks)
    assert leaks == frozenset()


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_result_that_is_released_leaves_with_everything(target: Target, known: bool) -> None:
    """So the other tests look in the right places."""
    with target.attacker() as attacker:
        if known:
            attacker.get("/start")
        assert attacker.pay("/sold", Wallet()).status_code == 200
        attacker.look_around()
        wanted = target.site.writes & (BESIDE | RESPONSE)
        assert eventually(lambda: target.content.found_in(attacker.loot) >= wanted), (
            wanted - target.content.found_in(attacker.loot)
        )


def test_what_all_requests_share_is_left_alone() -> None:
    """An attacker who never pays would turn it back for everybody."""
    shared, kept = {"visits": 0, "names": ["first"]}, list[int]()

    @contextlib.asynccontextmanager
    async def lifespan(_app: Any) -> AsyncGenerator[dict[str, Any]]:
        yield {"shared": shared}

    @paid("daily_report")
    async def sold(request: Request) -> Response:
        request.state.shared["visits"] += 1
        request.state.shared["names"].append("another")
        request.state.own = "content"
        return PlainTextResponse("content")

    async def free(request: Request) -> Response:
        kept.append(len(dict(request.scope["state"])))
        return PlainTextResponse("free")

    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    app = Starlette(routes=[Route("/sold", sold), Route("/", free)], middleware=[front], lifespan=lifespan)
    with TestClient(app) as client:
        for visits in (1, 2):
            unpaid = client.get("/sold")
            proof = Wallet.test("rejected").pay(unpaid.headers["payment-required"])
            assert client.get("/sold", headers={"PAYMENT-SIGNATURE": proof}).status_code == 402
            assert shared == {"visits": visits, "names": ["first", *["another"] * visits]}
        client.get("/")
    assert kept == [1]


def test_a_free_result_keeps_what_its_handler_said_of_caches() -> None:
    @paid("free_notes")
    async def notes(request: Request) -> Response:
        return PlainTextResponse("notes", headers={"cache-control": "public, max-age=60"})

    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    client = TestClient(Starlette(routes=[Route("/", notes)], middleware=[front]))
    assert client.get("/").headers["cache-control"] == "public, max-age=60"


def test_what_was_in_the_session_before_is_there_after_a_payment_that_failed(target: Target) -> None:
    with target.attacker() as attacker:
        attacker.get("/start")
        before = attacker.get("/me").text
        assert attacker.pay("/sold", Wallet.test("rejected")).status_code == 402
        assert attacker.get("/me").text == before
    assert "before" in before


def test_a_request_with_very_many_headers_leaves_nothing_either() -> None:
    """A payer makes the environ of a request as large as the server lets it be."""
    content = Content()
    client = werkzeug.test.Client(plain_site(make_paywall(), content))
    unpaid = client.get("/sold")
    proof = Wallet.test("rejected").pay(unpaid.headers["payment-required"])
    headers = {f"X-Header-{number}": "x" for number in range(LARGE + 1)}
    answer = client.get("/sold", headers={**headers, "PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, content.runs) == (402, 1)
    told = [answer.data, str(answer.headers).encode(), client.get("/me").data]
    leaks = content.found_in(told)
    figures.count("state with very many headers", leaks)
    assert leaks == frozenset()
