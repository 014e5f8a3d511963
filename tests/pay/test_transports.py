"""`faregate.pay` as a library: transports that pay, over a seller that follows a script."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.mechanisms.evm.exact import ExactEvmScheme

from faregate.core.models import Response
from faregate.errors import ConfigurationError
from faregate.pay import (
    AlreadyDelivered,
    AsyncPayingTransport,
    NotSigned,
    PayingTransport,
    PaymentPending,
    open_client,
)
from faregate.pay.http import NO_REUSE
from faregate.pay.payment_file import PurchaseLock
from tests.pay.seller import Reply, Seller, build_json_reply, deliver, require_payment

PRIVATE_KEY = "0x" + "5a" * 32
SETTLING = build_json_reply(202, "payment_settling", ("Retry-After", "0"), transaction_id="txn_1")
UNCONFIRMED = build_json_reply(503, "payment_unconfirmed", ("Retry-After", "0"))
IN_PROGRESS = build_json_reply(409, "payment_in_progress", ("Retry-After", "0"))
GATEWAY = Response(502, (("Content-Type", "text/html"),), b"<h1>Bad Gateway</h1>")
CRASHED = Response(500, (("Content-Type", "text/plain"),), b"Internal Server Error")
USED = build_json_reply(409, "proof_already_used", transaction_id="txn_1")
FAILED = build_json_reply(
    402,
    "payment_required",
    ("PAYMENT-REQUIRED", require_payment().first("payment-required") or ""),
    transaction_id="txn_1",
)
"""The seller says that the transaction failed, and asks for a new payment."""

Fetch = Callable[..., httpx.Response]
KINDS = ("blocking", "asyncio", "trio")


def build_payer(kind: type[Any]) -> Any:
    return kind().register("eip155:*", ExactEvmScheme(Account.from_key(PRIVATE_KEY)))


@pytest.fixture(params=KINDS)
def fetch(request: pytest.FixtureRequest, tmp_path: Path) -> Fetch:
    """Send one request with a client of its own, as a program does that was started anew."""

    def send(url: str, method: str = "GET", *, wait: float = 10, **arguments: Any) -> httpx.Response:
        if request.param == "blocking":
            with open_client(build_payer(x402ClientSync), tmp_path / "payments", wait=wait) as client:
                response: httpx.Response = client.request(method, url, **arguments)
                return response

        async def send_async() -> httpx.Response:
            async with open_client(build_payer(x402Client), tmp_path / "payments", wait=wait) as client:
                response: httpx.Response = await client.request(method, url, **arguments)
                return response

        return anyio.run(send_async, backend=request.param)

    return send


def list_payments(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "payments").iterdir())


def read_payment(tmp_path: Path) -> dict[str, Any]:
    [path] = list_payments(tmp_path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def expire_payment(tmp_path: Path) -> None:
    [path] = list_payments(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "valid_until": 1}))


def test_a_payment_buys_its_result_and_leaves_no_file(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(), deliver())

    response = fetch(seller.url)

    assert (response.status_code, response.content) == (200, b"the result")
    assert "payment-response" in response.headers
    assert len(seller.proofs) == 1
    assert list_payments(tmp_path) == []


@pytest.mark.parametrize(
    "pending",
    [SETTLING, UNCONFIRMED, IN_PROGRESS, GATEWAY, None],
    ids=["202", "503", "409", "502 of a gateway", "no response"],
)
def test_a_payment_that_may_be_charged_is_sent_again(seller: Seller, fetch: Fetch, pending: Reply) -> None:
    seller.script_replies(require_payment(), pending, deliver())

    assert fetch(seller.url).content == b"the result"

    first, second = seller.proofs
    assert first == second


@pytest.mark.parametrize("pending", [SETTLING, UNCONFIRMED, None], ids=["202", "503", "no response"])
def test_the_next_call_continues_a_pending_payment(
    seller: Seller, fetch: Fetch, tmp_path: Path, pending: Reply
) -> None:
    seller.script_replies(require_payment(), pending)

    with pytest.raises(PaymentPending, match="may be charged") as caught:
        fetch(seller.url, wait=0)

    [path] = list_payments(tmp_path)
    assert caught.value.file == str(path)
    assert (None if caught.value.response is None else caught.value.response.status_code) == (
        None if pending is None else pending.status
    )
    [first] = seller.proofs
    seller.script_replies(deliver())

    assert fetch(seller.url).content == b"the result"

    assert seller.proofs == [first]
    assert list_payments(tmp_path) == []


def test_only_the_owner_can_read_a_payment(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(), None)
    with pytest.raises(PaymentPending):
        fetch(seller.url.replace("//", "//user:secret@"), wait=0)

    [path] = list_payments(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "secret" not in path.read_text()


def test_a_payment_is_on_disk_when_it_is_sent(seller: Seller, tmp_path: Path) -> None:
    kept = list[dict[str, Any]]()

    class Watching(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if "payment-signature" in request.headers:
                paths = [path for path in list_payments(tmp_path) if path.suffix == ".json"]
                kept.extend(json.loads(path.read_text()) for path in paths)
            return super().handle_request(request)

    seller.script_replies(require_payment(), deliver())
    transport = Watching(limits=NO_REUSE)
    paying = PayingTransport(build_payer(x402ClientSync), tmp_path / "payments", transport=transport)
    with httpx.Client(transport=paying) as client:
        client.get(seller.url)

    assert [one["proof"] for one in kept] == seller.proofs
    assert kept[0]["is_open"] is True


def test_a_payment_that_failed_for_certain_is_replaced_by_the_next_call(
    seller: Seller, fetch: Fetch, tmp_path: Path
) -> None:
    seller.script_replies(require_payment(), SETTLING, FAILED)

    assert fetch(seller.url).status_code == 402

    assert list_payments(tmp_path) == []
    seller.script_replies(require_payment(), deliver())
    assert fetch(seller.url).content == b"the result"


def test_a_call_that_learns_that_an_earlier_payment_failed_buys_anew(seller: Seller, fetch: Fetch) -> None:
    seller.script_replies(require_payment(), CRASHED)
    assert fetch(seller.url).status_code == 500
    [first] = seller.proofs
    seller.script_replies(FAILED, require_payment(), deliver())

    assert fetch(seller.url).content == b"the result"

    again, second = seller.proofs
    assert again == first
    assert second != first


def test_a_refused_payment_is_not_replaced_while_it_is_valid(
    seller: Seller, fetch: Fetch, tmp_path: Path
) -> None:
    """A seller whose facilitator does not answer in time says 402, and the payment settles all the same."""
    seller.script_replies(require_payment(), require_payment())
    assert fetch(seller.url).status_code == 402
    [first] = seller.proofs

    seller.script_replies(require_payment())
    assert fetch(seller.url).status_code == 402
    assert seller.proofs == [first]

    expire_payment(tmp_path)
    seller.script_replies(require_payment(), deliver())
    assert fetch(seller.url).content == b"the result"
    assert seller.proofs != [first]


@pytest.mark.parametrize("pending", [SETTLING, GATEWAY, None], ids=["202", "502 of a gateway", "no response"])
def test_a_402_after_an_open_response_never_leads_to_a_second_payment(
    seller: Seller, fetch: Fetch, tmp_path: Path, pending: Reply
) -> None:
    """A seller that has forgotten a payment asks for another one, also when the first was charged."""
    seller.script_replies(require_payment(), pending, require_payment())
    with pytest.raises(PaymentPending, match="asks for a new payment"):
        fetch(seller.url)
    expire_payment(tmp_path)
    [first] = {*seller.proofs}

    seller.script_replies(require_payment())
    with pytest.raises(PaymentPending, match="asks for a new payment"):
        fetch(seller.url)

    assert seller.proofs == [first]


def test_a_refused_payment_that_is_sent_again_is_open_meanwhile(
    seller: Seller, fetch: Fetch, tmp_path: Path
) -> None:
    seller.script_replies(require_payment(), require_payment())
    fetch(seller.url)
    assert read_payment(tmp_path)["is_open"] is False
    seller.script_replies(None)

    with pytest.raises(PaymentPending):
        fetch(seller.url, wait=0)

    assert read_payment(tmp_path)["is_open"] is True


def test_an_error_of_the_handler_ends_the_purchase(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(), Response(404, (), b"no such city"))

    assert fetch(seller.url).status_code == 404

    assert list_payments(tmp_path) == []


@pytest.mark.parametrize(
    "reply",
    [
        USED,
        build_json_reply(400, "incomplete_body"),
        Response(408),
        Response(429),
        CRASHED,
    ],
    ids=["used", "incomplete", "408", "429", "500"],
)
def test_an_error_that_leaves_the_charge_open_keeps_the_payment(
    seller: Seller, fetch: Fetch, tmp_path: Path, reply: Response
) -> None:
    seller.script_replies(require_payment(), reply)

    assert fetch(seller.url).status_code == reply.status

    assert [read_payment(tmp_path)["proof"]] == seller.proofs


def test_an_error_after_an_open_response_keeps_the_payment(
    seller: Seller, fetch: Fetch, tmp_path: Path
) -> None:
    """While a seller is deployed anew, its proxy may say 404 to a payment that was charged before."""
    seller.script_replies(require_payment(), None, Response(404))

    assert fetch(seller.url).status_code == 404

    [first] = {*seller.proofs}
    assert read_payment(tmp_path)["proof"] == first


def test_an_idempotency_key_names_one_purchase_for_good(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "order-17"}
    seller.script_replies(require_payment(), deliver())
    fetch(seller.url, headers=headers)
    [first] = seller.proofs

    seller.script_replies(deliver())
    assert fetch(seller.url, headers=headers).content == b"the result"
    assert seller.proofs == [first]

    seller.script_replies(USED)
    with pytest.raises(AlreadyDelivered, match="delivered before") as caught:
        fetch(seller.url, headers=headers)
    assert caught.value.response is not None
    assert caught.value.response.status_code == 409

    seller.script_replies(require_payment())
    with pytest.raises(AlreadyDelivered):
        fetch(seller.url, headers=headers)

    seller.script_replies(require_payment(), deliver())
    fetch(seller.url, headers={"Idempotency-Key": "order-18"})
    assert seller.proofs != [first]


def test_a_payment_is_sent_with_a_key_that_only_its_payer_knows(seller: Seller, fetch: Fetch) -> None:
    seller.script_replies(require_payment(), SETTLING, deliver())
    fetch(seller.url)

    first, second, third = (one.headers.get("idempotency-key") for one in seller.received)
    assert first is None
    assert second == third
    assert len(second or "") >= 32


def test_a_client_with_credentials_sends_no_key_beside_them(seller: Seller, fetch: Fetch) -> None:
    seller.script_replies(require_payment(), deliver())

    fetch(seller.url, headers={"Authorization": "Bearer one"})

    assert all("idempotency-key" not in one.headers for one in seller.received)


def test_a_streamed_body_is_sent_whole_each_time(seller: Seller, tmp_path: Path) -> None:
    def write() -> Iterator[bytes]:
        yield b"one "
        yield b"two"

    seller.script_replies(require_payment(), SETTLING, deliver())
    with open_client(build_payer(x402ClientSync), tmp_path / "payments") as client:
        client.post(seller.url, content=write())

    assert [one.body for one in seller.received] == [b"one two"] * 3


def test_another_body_is_another_purchase(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(), None)
    with pytest.raises(PaymentPending):
        fetch(seller.url, "POST", content=b"one", wait=0)
    seller.script_replies(require_payment(), deliver())

    fetch(seller.url, "POST", content=b"two")

    assert [one.proof is None for one in seller.received] == [True, False]
    assert len(list_payments(tmp_path)) == 1


def test_a_result_that_breaks_off_is_fetched_again(tmp_path: Path, seller: Seller) -> None:
    class Breaking(httpx.HTTPTransport):
        has_broken = False

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if "payment-signature" in request.headers and not self.has_broken:
                self.has_broken = True
                response.close()

                class Half(httpx.SyncByteStream):
                    def __iter__(self) -> Iterator[bytes]:
                        yield b"the re"
                        raise httpx.ReadError("the connection broke")

                return httpx.Response(200, headers=response.headers, stream=Half())
            return response

    seller.script_replies(require_payment(), deliver(), deliver())
    transport = Breaking(limits=NO_REUSE)
    paying = PayingTransport(build_payer(x402ClientSync), tmp_path / "payments", transport=transport)
    with httpx.Client(transport=paying) as client:
        assert client.get(seller.url).content == b"the result"
    assert len({*seller.proofs}) == 1


def test_a_compressed_result_arrives_as_the_caller_expects_it(seller: Seller, fetch: Fetch) -> None:
    paid = deliver()
    body = gzip.compress(b"the result")
    seller.script_replies(
        require_payment(), Response(200, (*paid.headers, ("Content-Encoding", "gzip")), body)
    )

    assert fetch(seller.url).text == "the result"


def test_a_free_result_streams(seller: Seller, tmp_path: Path) -> None:
    seller.script_replies(Response(200, (), b"free"))
    with (
        open_client(build_payer(x402ClientSync), tmp_path / "payments") as client,
        client.stream("GET", seller.url) as response,
    ):
        assert not response.is_stream_consumed
        assert response.read() == b"free"
    assert list_payments(tmp_path) == []


def test_a_price_above_the_limit_is_not_signed(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(amount=5_000_000))

    with pytest.raises(NotSigned, match="x402 client refused"):
        fetch(seller.url)

    assert seller.proofs == []
    assert list_payments(tmp_path) == []


def test_a_402_of_something_else_is_returned(seller: Seller, fetch: Fetch) -> None:
    seller.script_replies(Response(402, (), b"your plan has ended"))

    assert fetch(seller.url).text == "your plan has ended"


def test_a_seller_that_cannot_be_reached_before_paying_raises_the_error_of_httpx(
    fetch: Fetch, seller: Seller
) -> None:
    seller.script_replies(None)

    with pytest.raises(httpx.TransportError):
        fetch(seller.url)


def test_a_caller_who_sends_a_payment_is_left_alone(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment())

    assert fetch(seller.url, headers={"PAYMENT-SIGNATURE": "mine"}).status_code == 402

    assert seller.proofs == ["mine"]


def test_equal_calls_at_once_are_separate_purchases_one_after_the_other(
    seller: Seller, fetch: Fetch, tmp_path: Path
) -> None:
    seller.script_replies(*(reply for _ in range(4) for reply in (require_payment(), deliver())))

    with ThreadPoolExecutor(4) as pool:
        responses = [one.result() for one in [pool.submit(fetch, seller.url, wait=60) for _ in range(4)]]

    assert [one.content for one in responses] == [b"the result"] * 4
    assert [one.proof is None for one in seller.received] == [True, False] * 4
    assert len({*seller.proofs}) == 4
    assert list_payments(tmp_path) == []


def test_a_call_does_not_wait_for_an_equal_one_for_ever(seller: Seller, fetch: Fetch, tmp_path: Path) -> None:
    seller.script_replies(require_payment(), None)
    with pytest.raises(PaymentPending):
        fetch(seller.url, wait=0)
    [path] = list_payments(tmp_path)
    lock = PurchaseLock(f"{path}.lock")
    assert lock.try_take()

    with pytest.raises(PaymentPending, match="another call is buying the same"):
        fetch(seller.url, wait=0)

    lock.release()
    assert not os.path.exists(f"{path}.lock")


def test_a_payer_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    payer: Any = x402Client()
    with pytest.raises(ConfigurationError, match="use AsyncPayingTransport"):
        PayingTransport(payer, tmp_path)
    payer = x402ClientSync()
    with pytest.raises(ConfigurationError, match="use PayingTransport"):
        AsyncPayingTransport(payer, tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="payments="):
        open_client(x402ClientSync(), tmp_path / "file" / "payments")


def test_a_client_is_opened_for_a_payer_alone(tmp_path: Path) -> None:
    payer: Any = "0xkey"
    with pytest.raises(ConfigurationError, match=r"open_client needs payer=x402ClientSync.*not str"):
        open_client(payer, tmp_path)
