"""A request is watched before it has a checkout: what is sold passes no more easily for that."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

from faregate.checkout.asgi_responder import PaywallResponder, find_responder
from faregate.checkout.path_rules import NO_RULES
from faregate.core.models import Request
from faregate.core.withholding import Bypass, may_be_result
from faregate.errors import ConfigurationError
from faregate.offers import build_offer, offer
from faregate.paywall import Paywall

Handle = Callable[[PaywallResponder], Awaitable[None]]
OFFER = build_offer("text_summary")


def run(handle: Handle, bypass: str = "", *, is_cut: bool = False) -> tuple[list[Any], PaywallResponder]:
    """Run an application for a request without a proof; return what the server sent.

    `is_cut`: the server is told that the response that it began is to end.
    """
    sent: list[Any] = []
    opened: list[PaywallResponder] = []

    async def send(message: Any) -> None:
        sent.append(message.get("status", message.get("body")))

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        responder = find_responder(scope)
        assert responder is not None
        opened.append(responder)
        await handle(responder)

    async def serve() -> None:
        paywall = Paywall(environ={}, base_url="emulator:", journal="memory:")
        scope = {"type": "http", "method": "GET", "path": "/report", "headers": [], "query_string": b""}

        def find_bypass(_server: Any, _scope: Any, status: int) -> Bypass | None:
            is_result = bypass and may_be_result(status, ())
            return Bypass(bypass, lambda _path: False) if is_result else None

        responder = PaywallResponder(paywall, NO_RULES, find_bypass, scope, receive, send, None)
        await responder.run(app)

    with pytest.raises(ConfigurationError) if is_cut else nullcontext():
        asyncio.run(serve())
    return sent, opened[0]


async def start(responder: PaywallResponder, status: int) -> None:
    await responder.send({"type": "http.response.start", "status": status, "headers": []})


def test_what_nobody_pays_for_passes_without_a_checkout() -> None:
    async def handle(responder: PaywallResponder) -> None:
        await start(responder, 200)
        await responder.send({"type": "http.response.body", "body": b"free"})

    sent, responder = run(handle)
    assert sent == [200, b"free"]
    assert "checkout" not in vars(responder)


@pytest.mark.parametrize("first", [None, 500, 404])
def test_a_result_in_place_of_what_is_sold_is_withheld_also_as_a_second_start(first: int | None) -> None:
    async def handle(responder: PaywallResponder) -> None:
        if first is not None:
            await start(responder, first)
        with pytest.raises(ConfigurationError, match="passed by"):
            await start(responder, 200)
        with nullcontext() if first is None else pytest.raises(ConfigurationError, match="passed by"):
            await responder.send({"type": "http.response.body", "body": b"result"})

    sent, _ = run(handle, bypass="its price is passed by", is_cut=first is not None)
    assert b"result" not in sent
    assert 200 not in sent


def test_a_response_is_cut_when_an_offer_is_made_or_a_price_forgotten_in_it() -> None:
    async def make(_responder: PaywallResponder) -> None:
        offer("text_summary")

    async def forget(responder: PaywallResponder) -> None:
        with pytest.raises(ConfigurationError, match="after the response began"):
            responder.authorize(OFFER, {}).close()

    for mistake in (make, forget):

        async def handle(responder: PaywallResponder, mistake: Any = mistake) -> None:
            await start(responder, 500)
            await mistake(responder)
            with pytest.raises(ConfigurationError):
                await responder.send({"type": "http.response.body", "body": b"result"})

        sent, _ = run(handle, is_cut=True)
        assert sent == [500]


def test_a_result_is_withheld_when_an_offer_was_made_meanwhile() -> None:
    async def handle(responder: PaywallResponder) -> None:
        offer("text_summary")
        with pytest.raises(ConfigurationError, match="while a request was running"):
            await start(responder, 200)

    sent, _ = run(handle)
    assert 200 not in sent


def test_nothing_is_sold_once_a_response_is_on_its_way() -> None:
    async def handle(responder: PaywallResponder) -> None:
        await start(responder, 200)
        with pytest.raises(ConfigurationError, match="after the response began"):
            await responder.authorize(OFFER, {})
        with pytest.raises(ConfigurationError, match="after the response began"):
            await responder.send({"type": "http.response.body", "body": b"result"})

    with pytest.raises(ConfigurationError, match="after the response began"):
        run(handle)


def test_a_request_that_has_ended_sells_and_sends_nothing() -> None:
    async def handle(_responder: PaywallResponder) -> None:
        return

    sent, responder = run(handle)
    with pytest.raises(ConfigurationError, match="after its request has ended"):
        asyncio.run(responder.authorize(OFFER, {}))
    asyncio.run(start(responder, 200))
    assert sent == []


def test_a_request_is_read_as_the_server_gave_it() -> None:
    found: list[Request] = []

    async def handle(responder: PaywallResponder) -> None:
        responder._scope.update(path="/other", method="POST", headers=[(b"x-payment", b"proof")])
        found.append(responder.checkout.incoming.request)

    run(handle)
    assert found == [Request("GET", "/report")]


def test_the_look_for_the_payer_leaves_a_message_to_the_task_that_waits_for_it() -> None:
    async def send(_message: Any) -> None:
        raise AssertionError("nothing is sent")

    async def look() -> None:
        paywall = Paywall(environ={}, base_url="emulator:", journal="memory:")
        headers = [(b"payment-signature", b"cHJvb2Y=")]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b""}
        messages = asyncio.Queue[Any]()
        responder = PaywallResponder(paywall, NO_RULES, lambda *_: None, scope, messages.get, send, None)
        has_left = cast(Callable[[], Awaitable[bool]], responder.checkout.has_payer_left)
        reader = asyncio.create_task(responder.receive())
        await asyncio.sleep(0)
        messages.put_nowait({"type": "http.request", "body": b"rest", "more_body": False})
        assert not await has_left()
        assert (await asyncio.wait_for(reader, 5))["body"] == b"rest"
        messages.put_nowait({"type": "http.disconnect"})
        assert await has_left()

    asyncio.run(look())
