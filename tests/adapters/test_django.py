"""Django under WSGI and ASGI, over real sockets: which views can be sold, and what leaves."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import django_site
from tests.django_site import databases

django_site.ready()

from django.contrib.auth.decorators import login_required  # noqa: E402
from django.core.exceptions import PermissionDenied  # noqa: E402
from django.http import (  # noqa: E402
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    StreamingHttpResponse,
)
from django.urls import path, re_path  # noqa: E402

from faregate.checkout.wsgi_environ import BYPASS_KEYS  # noqa: E402
from faregate.django import Payment, paid  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from tests.adapters.django_kinds import (  # noqa: E402
    CONTENT,
    KINDS,
    SOLD,
    Classy,
    PaidMethod,
    acontent,
    content,
    every_kind,
    ninja_api,
    with_paid_dispatch,
)
from tests.adapters.django_views import COMMON, PAYWALL, Site, ask_wsgi, project, served  # noqa: E402
from tests.support.waiting import eventually  # noqa: E402

SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"


@pytest.fixture(params=["wsgi", "asgi"])
def serve(request: pytest.FixtureRequest) -> Any:
    return partial(served, request.param)


def answering(make: Callable[[], Any]) -> list[Any]:
    """A plain and an async view that answer so."""

    def plain(_request: HttpRequest) -> Any:
        return make()

    async def awaiting(_request: HttpRequest) -> Any:
        return make()

    return [
        path(name, paid("daily_report")(view)) for name, view in (("plain", plain), ("awaiting", awaiting))
    ]


BOTH = ["/plain", "/awaiting"]


# What can be sold


def test_every_kind_of_view_is_sold(serve: Any) -> None:
    with serve(*every_kind()) as site:
        for place in KINDS:
            unpaid = site.ask(place)
            assert (unpaid.status_code, CONTENT in unpaid.text) == (402, False), place
            proof = site.wallet.pay(unpaid.headers["payment-required"])
            response = site.ask(place, proof)
            assert (response.status_code, CONTENT in response.text) == (200, True), (place, response.text)
            assert "payment-response" in response.headers, place
            assert response.headers["cache-control"] == "private, no-store"
            again = site.ask(place, proof)
            assert (again.content, again.headers["payment-response"]) == (
                response.content,
                response.headers["payment-response"],
            )
        assert set(site.statuses) == {"succeeded"}
        assert site.completions == len(KINDS)


def test_what_is_not_sold_is_free_and_untouched(serve: Any) -> None:
    async def achunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b"):
            yield chunk

    def stream(request: HttpRequest) -> StreamingHttpResponse:
        awaiting = "ASGI" in type(request).__name__
        return StreamingHttpResponse(achunks() if awaiting else iter([b"a", b"b"]))

    with serve(path("open", stream), path("method", PaidMethod.as_view()), *every_kind()[7:8]) as site:
        response = site.ask("/open", "bm90IGxvb2tlZCBhdA==")
        assert (response.text, "cache-control" in response.headers) == ("ab", False)
        assert "content-length" not in response.headers
        assert site.ask("/method", method="POST").text == "free to post"
        assert site.ask("/rest-set", method="POST").json() == {"free": True}
        assert [call for call in site.emulator.calls() if call.path.endswith("/access")] == []


def test_the_view_finds_its_payment_and_reports(serve: Any) -> None:
    @paid("token_meter")
    def meter(request: HttpRequest) -> HttpResponse:
        payment: Payment = request.payment  # type: ignore[attr-defined]
        payment.report(input_tokens=len(request.body))
        return HttpResponse(payment.transaction_id or "")

    with serve(path("meter", meter)) as site:
        response = site.buy("/meter", "POST", content=b"12345")
        assert response.text.startswith("txn_")


def test_a_price_below_a_login_asks_for_the_login_first(serve: Any) -> None:
    """A redirect to the login is billable: its payer would have paid for it."""
    with serve(
        path("below", login_required(SOLD(content))),
        path("class", login_required(with_paid_dispatch(Classy))),
        MIDDLEWARE=[SESSIONS, "django.contrib.auth.middleware.AuthenticationMiddleware", PAYWALL],
    ) as site:
        for place in ("/below", "/class"):
            response = site.ask(place, "cHJvb2Y=")
            assert (response.status_code, "login" in response.headers["location"]) == (302, True)
        assert site.emulator.calls() == []


def test_prefixes_are_sold_and_refused(serve: Any) -> None:
    routes = [path("reports/<str:name>", content), path("drafts/x", content), path("open", content)]
    grounds = {"OFFERS": {"/reports": "daily_report"}, "REFUSE": ["/drafts"]}
    with serve(*routes, FAREGATE=grounds) as site:
        assert site.ask("/reports/today").status_code == 402
        assert site.buy("/reports/today").text == CONTENT
        assert site.ask("/reports/today", method="OPTIONS").status_code == 204
        assert (site.ask("/drafts/x").status_code, site.ask("/open").text) == (403, CONTENT)
        assert site.ask("/Reports//x").status_code == 402


def test_no_view_runs_for_a_path_that_is_refused(serve: Any) -> None:
    ran = list[str]()

    def view(_request: HttpRequest, name: str) -> HttpResponse:
        ran.append(name)
        return HttpResponse(CONTENT)

    with serve(path("reports/<path:name>", view), FAREGATE={"OFFERS": {"/reports": "daily_report"}}) as site:
        response = site.ask("/reports/..%2Ftoday")
        assert (response.status_code, CONTENT in response.text, ran) == (400, False, [])
        assert site.buy("/reports/today").text == CONTENT
        assert ran == ["today"]


# What leaves, and what does not


def test_headers_and_cookies_survive_and_middleware_outside_adds_its_own(serve: Any) -> None:
    def make() -> HttpResponse:
        response = HttpResponse(CONTENT)
        response.set_cookie("a", "1", path="/x", httponly=True, samesite="Lax")
        response.set_cookie("b", "2")
        response["X-Own"] = "1"
        response["PAYMENT-RESPONSE"] = "forged"
        return response

    with serve(
        *answering(make), MIDDLEWARE=[SESSIONS, "tests.adapters.test_django.Outside", COMMON, PAYWALL]
    ) as site:
        for place in BOTH:
            unpaid = site.ask(place)
            assert "x-own" not in unpaid.headers
            assert len(unpaid.headers.get_list("set-cookie")) == 0
            response = site.buy(place)
            cookies = response.headers.get_list("set-cookie")
            assert sorted(one.split("=")[0] for one in cookies) == ["a", "b", "outside"]
            assert "HttpOnly" in next(one for one in cookies if one.startswith("a="))
            assert (response.headers["x-own"], response.headers["x-outside"]) == ("1", "1")
            assert response.headers.get_list("payment-response") != ["forged"]
            assert response.headers["content-length"] == str(len(CONTENT))


class Outside:
    """Plain middleware around the paywall. Under ASGI it puts the paywall into a thread."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        response = self.get_response(request)
        response["X-Outside"] = "1"
        if response.status_code == 200:
            response.set_cookie("outside", "1")
        return response


def test_streams_leave_whole_and_only_when_paid(serve: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield from (b"%d " % number for number in range(200))

    async def achunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    whole = b"".join(chunks())
    for make in (lambda: StreamingHttpResponse(chunks()), lambda: StreamingHttpResponse(achunks())):
        with serve(*answering(make)) as site:
            for place in BOTH:
                response = site.buy(place)
                assert response.content == whole
                assert response.headers["content-length"] == str(len(whole))


def test_files_are_held_and_closed(serve: Any, tmp_path: Path) -> None:
    (tmp_path / "report").write_text(CONTENT * 10_000)
    opened: list[Any] = []

    def make() -> FileResponse:
        opened.append((tmp_path / "report").open("rb"))
        return FileResponse(opened[-1])

    with serve(*answering(make)) as site:
        for place in BOTH:
            assert site.ask(place).status_code == 402
            assert site.buy(place).text == CONTENT * 10_000
            assert eventually(lambda: all(one.closed for one in opened))
    assert len(opened) == 2


def test_too_much_is_not_charged(serve: Any) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1000

    small = paid("daily_report", max_result_bytes=10_000)
    routes = [
        path("whole", small(lambda _request: HttpResponse(b"x" * 10_001))),
        path("stream", small(lambda _request: StreamingHttpResponse(endless()))),
    ]
    with serve(*routes) as site:
        for place in ("/whole", "/stream"):
            response = site.buy(place)
            assert (response.status_code, response.json()["code"]) == (500, "result_too_large")
        assert site.statuses == ["failed", "failed"]


def boom() -> Any:
    raise ZeroDivisionError("secret")


def half() -> StreamingHttpResponse:
    def chunks() -> Iterator[bytes]:
        yield CONTENT.encode()
        raise ZeroDivisionError("half-way")

    return StreamingHttpResponse(chunks())


def missing() -> Any:
    raise Http404


def denied() -> Any:
    raise PermissionDenied


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (boom, 500),
        (half, 500),
        (missing, 404),
        (denied, 403),
        (lambda: None, 500),
        (lambda: HttpResponse(status=304), 500),
        (lambda: HttpResponse("no", status=400), 400),
    ],
)
def test_failed_work_is_not_charged(serve: Any, make: Callable[[], Any], status: int) -> None:
    with serve(*answering(make)) as site:
        for place in BOTH:
            proof = site.proof(place)
            response = site.ask(place, proof)
            assert (response.status_code, "payment-response" in response.headers) == (status, False)
            assert CONTENT not in response.text
            assert site.ask(place, proof).status_code == 402
        assert site.statuses == ["failed", "failed"]


def test_a_debug_page_is_the_views_own_error(serve: Any) -> None:
    with serve(*answering(boom), DEBUG=True) as site:
        unpaid = site.ask("/plain")
        assert "ZeroDivision" not in unpaid.text
        assert site.buy("/plain").status_code == 500
        assert site.statuses == ["failed"]


class Generous:
    """Answers every exception with what is for sale."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse:
        return HttpResponse(CONTENT)


def test_whoever_swallows_exceptions_releases_nothing_unpaid(serve: Any) -> None:
    routes = [path("plain", SOLD(paid("text_summary")(content))), path("ninja/", ninja_api().urls)]
    with serve(*routes, MIDDLEWARE=["tests.adapters.test_django.Generous", PAYWALL]) as site:
        for place in ("/plain", "/ninja/plain", "/ninja/awaiting"):
            unpaid = site.ask(place)
            assert (unpaid.status_code, CONTENT in unpaid.text) == (402, False)
        response = site.buy("/plain")
        assert (response.status_code, response.json()["code"]) == (500, "two_offers")
        assert site.statuses == ["failed"]


def test_without_the_middleware_a_paid_view_is_an_error_and_never_free(serve: Any) -> None:
    with serve(*every_kind(), MIDDLEWARE=[]) as site:
        for place in KINDS:
            response = site.ask(place)
            assert (response.status_code, CONTENT in response.text) == (500, False), place


@pytest.mark.parametrize("name", BYPASS_KEYS)
def test_a_paid_view_is_not_given_the_connection(name: str) -> None:
    """gunicorn gives a handler a way to send headers at once, and others give it the socket."""

    def sending(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(name in request.META))

    given: dict[str, Any] = {name: print}
    with project(path("send", SOLD(sending))):
        proof = Wallet().pay(ask_wsgi("/send", **given)[1]["payment-required"])
        assert ask_wsgi("/send", proof, **given)[2] == b"False"


# Requests


def test_every_spelling_that_reaches_the_view_reaches_the_gate(serve: Any) -> None:
    routes = [
        path("paid", SOLD(content)),
        re_path(r"^any/.*$", SOLD(content)),
        path("slash/", SOLD(content)),
        path("prix/<str:name>", SOLD(content)),
    ]
    targets = ["/paid", "/%70aid", "/any//x", "/any/../x", "/any/%2F", "/slash/", "/prix/%C3%A9t%C3%A9"]
    with serve(*routes, MIDDLEWARE=[COMMON, PAYWALL]) as site:
        host, port = site.url.removeprefix("http://").split(":")
        for target in targets:
            for method in ("GET", "HEAD", "POST", "PUT", "TRACE", "get"):
                with socket.create_connection((host, int(port))) as line:
                    line.sendall(
                        f"{method} {target} HTTP/1.1\r\nHost: evil?x\r\nConnection: close\r\n\r\n".encode()
                    )
                    said = b"".join(iter(partial(line.recv, 65536), b""))
                assert CONTENT.encode() not in said, (method, target)
        assert site.ask("/slash").status_code == 301  # the router's own answer costs nothing
        unpaid = site.ask("/prix/%C3%A9t%C3%A9")
        assert unpaid.status_code == 402
        assert site.buy("/prix/%C3%A9t%C3%A9").text == CONTENT


def test_a_body_is_read_once_and_by_the_view(serve: Any) -> None:
    def upload(request: HttpRequest) -> HttpResponse:
        found: Any = request.FILES["file"]
        return HttpResponse(f"{found.name} {found.size}")

    async def aupload(request: HttpRequest) -> HttpResponse:
        return upload(request)

    with serve(path("plain", SOLD(upload)), path("awaiting", SOLD(aupload))) as site:
        for place in BOTH:
            files = {"file": ("big", b"x" * 20 * 1024 * 1024)}
            assert site.buy(place, "POST", files=files).text == f"big {20 * 1024 * 1024}"


def test_a_missing_csrf_token_is_not_charged(serve: Any) -> None:
    csrf = "django.middleware.csrf.CsrfViewMiddleware"
    with serve(path("form", SOLD(content)), MIDDLEWARE=[csrf, PAYWALL]) as site:
        assert site.ask("/form", "cHJvb2Y=", "POST").status_code == 403
        assert site.emulator.calls() == []


def test_work_that_takes_too_long_is_not_charged(serve: Any) -> None:
    hurried = paid("daily_report", max_work_seconds=0.2)

    @hurried
    async def slow(_request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0.6)
        return HttpResponse(CONTENT)

    @hurried
    def blocking(_request: HttpRequest) -> HttpResponse:
        time.sleep(0.4)
        return HttpResponse(CONTENT)

    def drops() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.05)
            yield b"."

    stream = hurried(lambda _request: StreamingHttpResponse(drops()))
    began = time.monotonic()
    with serve(path("slow", slow), path("blocking", blocking), path("stream", stream)) as site:
        for place in ("/slow", "/blocking", "/stream"):
            response = site.buy(place)
            assert (response.status_code, response.json()["code"]) == (500, "work_timed_out"), place
    assert time.monotonic() - began < 8  # the stream alone would go on for ten


@pytest.mark.parametrize("reads_late", [False, True])
def test_a_payer_who_leaves_pays_and_may_fetch_the_result(serve: Any, reads_late: bool) -> None:
    """Under ASGI Django cancels the request, and closes its body."""
    runs: list[str] = []

    @SOLD
    async def awaiting(request: HttpRequest) -> HttpResponse:
        early = b"" if reads_late else request.body
        await asyncio.sleep(0.4)
        runs.append("awaiting")
        return HttpResponse(CONTENT.encode() + (early or request.body))

    @SOLD
    def plain(request: HttpRequest) -> HttpResponse:
        early = b"" if reads_late else request.body
        time.sleep(0.4)
        runs.append("plain")
        return HttpResponse(CONTENT.encode() + (early or request.body))

    with serve(path("awaiting", awaiting), path("plain", plain)) as site:
        host, port = site.url.removeprefix("http://").split(":")
        for place in BOTH:
            proof = site.proof(place, "POST")
            head = (
                f"POST {place} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nPAYMENT-SIGNATURE: {proof}\r\n\r\n"
            )
            with socket.create_connection((host, int(port))) as line:
                line.sendall(head.encode() + b"body")
                time.sleep(0.2)
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            assert _fetched(site, place, proof) == f"{CONTENT}body"
        assert sorted(runs) == ["awaiting", "plain"]
        assert site.completions == 2


def _fetched(site: Site, place: str, proof: str) -> str:
    """What the same payment gets once its work is done."""
    found: list[httpx.Response] = []

    def there() -> bool:
        found.append(site.ask(place, proof, "POST", content=b"body"))
        return found[-1].status_code == 200

    assert eventually(there), (place, found[-1].text)
    return found[-1].text


def test_the_paywall_itself_takes_no_thread_under_asgi() -> None:
    hops: list[Any] = []
    original = asyncio.BaseEventLoop.run_in_executor

    def counting(self: Any, executor: Any, function: Any, *args: Any) -> Any:
        hops.append(function)
        return original(self, executor, function, *args)

    with served("asgi", path("paid", SOLD(acontent))) as site:
        site.ask("/paid")  # what is loaded once
        proof = site.proof("/paid")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.BaseEventLoop, "run_in_executor", counting)
            assert site.ask("/paid", proof).text == CONTENT
    assert all("close" in repr(one) for one in hops), hops  # Django's own, of the response


# CORS


def test_a_browser_may_ask_and_read(serve: Any) -> None:
    cors = "corsheaders.middleware.CorsMiddleware"
    origin = {"Origin": "https://shop.example"}
    asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "payment-signature"}
    allowed = {"CORS_ALLOWED_ORIGINS": ["https://shop.example"], "CORS_ALLOW_HEADERS": ["payment-signature"]}
    with serve(path("paid", SOLD(content)), MIDDLEWARE=[cors, PAYWALL], **allowed) as site:
        preflight = site.ask("/paid", method="OPTIONS", headers=origin | asks)
        assert preflight.status_code == 200
        assert "payment-signature" in preflight.headers["access-control-allow-headers"]
        for response in (site.ask("/paid", headers=origin), site.buy("/paid", headers=origin)):
            assert response.headers["access-control-allow-origin"] == "https://shop.example"
            assert "PAYMENT-RE" in response.headers["access-control-expose-headers"]


# The journal in Django's database


@pytest.mark.parametrize("kind", ["default", "postgres", "mariadb"])
def test_djangos_own_database_remembers(serve: Any, kind: str) -> None:
    using = kind if kind == "default" else databases.add(kind)
    with serve(*every_kind(), FAREGATE={"JOURNAL": f"django:{using}"}) as site:
        for place in ("/plain", "/awaiting", "/class", "/ninja/plain", "/ninja/awaiting", "/rest"):
            proof = site.proof(place)
            first, again = (site.ask(place, proof) for _ in range(2))
            assert (first.status_code, again.content) == (200, first.content), first.text
        assert set(site.statuses) == {"succeeded"}


def test_with_atomic_requests_the_price_outside_the_transaction_is_sold(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import connections

    settings = connections.databases["default"]
    settings["ATOMIC_REQUESTS"] = True
    try:
        routes = [
            path("plain", SOLD(content)),
            path("class", with_paid_dispatch(Classy)),
            path("n/", ninja_api().urls),
        ]
        with serve(*routes, FAREGATE={"JOURNAL": "django:"}) as site:
            assert site.buy("/plain").text == CONTENT
            assert site.buy("/class").text == CONTENT
            refused = site.ask("/n/plain", site.proof("/n/plain"))
            assert (refused.status_code, CONTENT in refused.text) == (503, False)
            assert "non_atomic_requests" in caplog.text
    finally:
        settings["ATOMIC_REQUESTS"] = False
