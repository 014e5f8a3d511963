"""What a payer is told, header by header."""

import json
from collections.abc import Callable

import pytest

from faregate.core import responses
from faregate.core.models import Header, Response
from tests.core.flow_script import TXN

JSON: Header = ("Content-Type", "application/json")
STORED_NOWHERE: Header = ("Cache-Control", "private, no-store")
READABLE: Header = (
    "Access-Control-Expose-Headers",
    "PAYMENT-REQUIRED, PAYMENT-RESPONSE, Faregate-Transaction, Retry-After",
)
NAMED: Header = ("Faregate-Transaction", TXN)
OWN: Header = ("x-own", "1")


@pytest.mark.parametrize(
    ("answer", "status", "code", "transaction_id", "retry_after"),
    [
        (lambda: responses.build_settling(TXN), 202, "payment_settling", TXN, "2"),
        (lambda: responses.build_settling(None), 202, "payment_settling", None, "2"),
        (lambda: responses.build_unconfirmed(TXN), 503, "payment_unconfirmed", TXN, "2"),
        (lambda: responses.build_completion_refused(403, TXN, None), 403, "completion_refused", TXN, "2"),
        (lambda: responses.build_completion_refused(429, TXN, "9"), 429, "completion_refused", TXN, "9"),
        (lambda: responses.build_in_progress(), 409, "payment_in_progress", None, "1"),
        (lambda: responses.build_already_used(), 409, "proof_already_used", None, None),
        (lambda: responses.build_already_used(TXN), 409, "proof_already_used", TXN, None),
        (lambda: responses.build_unavailable(502), 502, "payment_service_unavailable", None, None),
        (lambda: responses.build_unavailable(502, "9"), 502, "payment_service_unavailable", None, None),
        (lambda: responses.build_unavailable(503), 503, "payment_service_unavailable", None, "2"),
        (lambda: responses.build_unavailable(503, "9"), 503, "payment_service_unavailable", None, "9"),
        (lambda: responses.build_work_failed("result_too_large"), 500, "result_too_large", None, None),
        (
            lambda: responses.build_refused(431, "proof_too_large", "Too large."),
            431,
            "proof_too_large",
            None,
            None,
        ),
    ],
)
def test_an_answer_of_the_paywalls_own(
    answer: Callable[[], Response],
    status: int,
    code: str,
    transaction_id: str | None,
    retry_after: str | None,
) -> None:
    response = answer()
    body = json.loads(response.body)
    assert (response.status, body["code"], body.get("transaction_id")) == (status, code, transaction_id)
    assert body.keys() - {"transaction_id"} == {"code", "message"}
    later = () if retry_after is None else (("Retry-After", retry_after),)
    named = () if transaction_id is None else (NAMED,)
    assert response.headers == (JSON, STORED_NOWHERE, READABLE, *named, *later)


# The service's own answers


SAID = (
    ("content-type", "application/problem+json"),
    ("payment-required", "aW5zdHI="),
    ("payment-response", "early"),
    ("set-cookie", "a=b"),
)


def test_a_402_is_relayed_with_its_instructions_and_no_other_header() -> None:
    told = responses.build_payment_required(Response(402, (*SAID, ("retry-after", "7")), b"pay"))
    relayed = (SAID[0], SAID[1], ("retry-after", "7"))
    assert told == Response(402, (*relayed, STORED_NOWHERE, READABLE), b"pay")


def test_a_202_is_relayed_without_instructions_or_a_proof() -> None:
    told = responses.relay_settling(Response(202, (*SAID, ("retry-after", "7")), b"wait"), TXN)
    assert told == Response(202, (SAID[0], ("retry-after", "7"), STORED_NOWHERE, READABLE, NAMED), b"wait")


def test_a_202_that_does_not_say_when_to_come_back_gets_a_time() -> None:
    told = responses.relay_settling(Response(202, SAID, b"wait"), TXN)
    later = ("Retry-After", "2")
    assert told == Response(202, (SAID[0], STORED_NOWHERE, READABLE, later, NAMED), b"wait")


@pytest.mark.parametrize("reply", [Response(202), Response(200, (), b'{"status":"succeeded"}')])
def test_what_cannot_be_relayed_as_a_202_gets_our_words(reply: Response) -> None:
    assert responses.relay_settling(reply, TXN) == responses.build_settling(TXN)


# The handler's own headers


PAYMENT = (
    "Faregate-Transaction",
    "PAYMENT-REQUIRED",
    "Payment-Response",
    "payment-signature",
    "X-Payment-Response",
)
OF_THE_CONNECTION = (
    "Connection",
    "keep-alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Trailers",
    "transfer-encoding",
    "Upgrade",
)
CACHING = (
    ("Cache-Control", "max-age=60"),
    ("CDN-Cache-Control", "max-age=60"),
    ("cloudflare-cdn-cache-control", "max-age=60"),
    ("Edge-Control", "cache-maxage=1m"),
    ("Expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
    ("Surrogate-Control", "content='ESI/1.0'"),
    ("vercel-cdn-cache-control", "max-age=60"),
    ("X-Accel-Expires", "60"),
    ("X-LiteSpeed-Cache-Control", "public,max-age=60"),
    ("X-LiteSpeed-Tag", "books"),
    ("Netlify-CDN-Cache-Control", "public, durable"),
    ("X-VC-TTL", "60"),
    ("X-LSCACHE", "on"),
    ("Akamai-Cache-Control", "public"),
    ("Edge-Cache-Tag", "books"),
    ("X-Cacheable", "YES"),
    ("X-Beresp-TTL", "60"),
    ("X-Max-Age", "60"),
    ("Age", "0"),
    ("X-Stale-If-Error", "60"),
    ("Newest-Network-Policy", "public, max-age=60"),
    ("Newest-Network-Policy", "S-MaxAge = 60"),
    ("Newest-Network-Policy", "durable,stale-while-revalidate=60"),
)
PASSING = (
    ("Access-Control-Max-Age", "600"),
    ("Clear-Site-Data", '"cache"'),
    ("Content-Disposition", 'attachment; filename="cache.txt"'),
    ("ETag", '"abc"'),
    ("Last-Modified", "Thu, 01 Dec 2022 16:00:00 GMT"),
    ("Link", "</next?max-age=60>; rel=next"),
    ("Location", "/next?max-age=60"),
    ("Pragma", "no-cache"),
    ("Strict-Transport-Security", "max-age=63072000; includeSubDomains"),
    ("Vary", "Accept-Language"),
    ("X-Customer-Age", "60"),
    ("X-Knowledge-Base", "1"),
    ("X-Language", "en"),
    ("X-RateLimit-Reset", "60"),
    ("X-Request-Id", "1"),
    ("X-Throttle", "60"),
    ("X-Usage", "12"),
)


@pytest.mark.parametrize("name", [*PAYMENT, *OF_THE_CONNECTION])
def test_what_a_handler_says_of_payment_or_of_the_connection_stays_here(name: str) -> None:
    given = Response(200, ((name, "forged"), OWN), b"result")
    assert responses.build_free(given) == Response(200, (OWN,), b"result")
    assert responses.build_unsold(given) == Response(200, (OWN, STORED_NOWHERE), b"result")
    proof = ("PAYMENT-RESPONSE", "cGFpZA==")
    assert responses.build_paid(given, proof[1], TXN) == Response(
        200, (OWN, STORED_NOWHERE, proof, NAMED, READABLE), b"result"
    )


@pytest.mark.parametrize("own", CACHING, ids=lambda own: ": ".join(own))
def test_what_was_paid_for_is_not_kept_by_a_shared_cache(own: Header) -> None:
    given = Response(200, (own, OWN), b"result")
    proof = ("PAYMENT-RESPONSE", "cGFpZA==")
    assert responses.build_unsold(given).headers == (OWN, STORED_NOWHERE)
    paid = responses.build_paid(given, proof[1], TXN)
    assert paid.headers == (OWN, STORED_NOWHERE, proof, NAMED, READABLE)
    assert responses.build_free(given) == given


@pytest.mark.parametrize("own", PASSING, ids=lambda own: ": ".join(own))
def test_a_header_that_lets_no_cache_store_passes(own: Header) -> None:
    assert responses.build_unsold(Response(200, (own,), b"result")).headers == (own, STORED_NOWHERE)
    strict = (own, STORED_NOWHERE)
    assert responses.build_unsold(Response(200, strict, b"result")).headers == strict


@pytest.mark.parametrize(
    "own",
    [
        (("cache-control", "private, no-store"),),
        (("Cache-Control", "PRIVATE,No-Store , max-age=0"), ("Expires", "0")),
        (("Cache-Control", "no-store"), ("Cache-Control", "private")),
    ],
)
def test_a_handler_that_is_as_strict_keeps_its_own_words(own: tuple[Header, ...]) -> None:
    assert responses.build_unsold(Response(200, own, b"")).headers == own


@pytest.mark.parametrize(
    "own",
    [
        (("Cache-Control", "private"),),
        (("Cache-Control", "no-store"),),
        (("Cache-Control", "private, no-store, public"),),
        (("Cache-Control", "private, no-store"), ("Surrogate-Control", "max-age=60")),
        (("Cache-Control", "private, no-store"), ("X-VC-TTL", "60")),
    ],
)
def test_a_handler_that_is_less_strict_is_not_heard(own: tuple[Header, ...]) -> None:
    assert responses.build_unsold(Response(200, own, b"")).headers == (STORED_NOWHERE,)
