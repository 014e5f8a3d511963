"""What may leave unpaid: each status, and the redirects that a router makes."""

import httpx
import pytest

from faregate.core.models import Offer, OfferChoice, PaidRequest, Request, Response
from faregate.core.responses import NO_STORE
from faregate.core.withholding import build_plain_redirect, build_unpaid, may_be_result


def paid_request(url: str, prefix_host: str | None = "shop.example") -> PaidRequest:
    return PaidRequest(Offer("report"), Request("GET", url), "", 1.0, 1, prefix_host=prefix_host)


def redirect(*locations: str, status: int = 307) -> Response:
    mark = (("Set-Cookie", "secret=1"), ("X-Mark", "secret"))
    return Response(status, (*(("Location", to) for to in locations), *mark), b"secret")


@pytest.mark.parametrize("status", range(200, 601))
def test_only_errors_leave_unpaid(status: int) -> None:
    answer = build_unpaid(Response(status, (), b"body"), paid_request("/sold", None))
    is_conditional = status in (412, 416)
    assert (answer is not None) == (400 <= status <= 599)
    assert answer is None or answer.body == (b"" if is_conditional else b"body")
    assert may_be_result(status, ()) == (answer is None or status == 402 or is_conditional)


@pytest.mark.parametrize(
    "name",
    [
        *("X-Accel-Redirect", "x-sendfile", "X-LIGHTTPD-send-file", "X-LiteSpeed-Location", "X-Reproxy-URL"),
        *("Set-Cookie", "ETag"),
    ],
)
def test_an_error_names_no_file_that_a_proxy_would_send(name: str) -> None:
    answer = build_unpaid(Response(404, ((name, "/secret"),), b"body"), paid_request("/sold", None))
    assert answer is not None
    assert (answer.first(name) is None) == (name != "ETag")


@pytest.mark.parametrize("status", [412, 416])
def test_an_answer_to_a_condition_is_made_anew(status: int) -> None:
    headers = (("ETag", "secret"), ("Content-Range", "secret"))
    answer = build_unpaid(Response(status, headers, b"secret"), paid_request("/sold", None))
    assert answer == Response(status, (NO_STORE,))


@pytest.mark.parametrize("status", [400, 403, 404, 500, 599])
def test_an_error_that_is_made_of_a_result_is_made_anew(status: int) -> None:
    response = Response(status, (("X-Result", "secret"),), b"secret")
    answer = build_unpaid(response, paid_request("/sold", None), was_result=True)
    assert answer == Response(status, (NO_STORE,))


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("/sold", "/sold/", "/sold/"),
        ("/sold/", "http://shop.example/sold", "/sold"),
        ("/sold?a=1", "https://shop.example/sold/?a=1", "/sold/?a=1"),
        ("/s%C3%B6ld", "/söld/", "/s%C3%B6ld/"),
        ("/a%2Cb%40c/", "/a,b@c", "/a%2Cb%40c"),
        ("/sold?a={b|c}", "/sold/?a=%7Bb%7Cc%7D", "/sold/?a={b|c}"),
    ],
)
def test_a_redirect_to_the_slash_is_made_anew(url: str, location: str, target: str) -> None:
    answer = build_unpaid(redirect(location), paid_request(url))
    assert answer is not None
    assert (answer.status, answer.first("location"), answer.body) == (307, target, b"")
    assert "secret" not in str(answer)


@pytest.mark.parametrize(
    ("url", "locations"),
    [
        ("/sold", ()),
        ("/sold", ("/sold",)),
        ("/sold", ("/sold/?token=secret",)),
        ("/sold?a=1", ("/sold/",)),
        ("/sold", ("https://cdn.example/sold/",)),
        ("/sold", ("//cdn.example/sold/",)),
        ("/sold", ("http:/sold/",)),
        ("/sold", ("/sold/", "/sold/")),
        ("/sold", ("/sold/secret",)),
        ("/sold", ("http://[/sold/",)),
        ("//cdn.example", ("//cdn.example/",)),
        ("/\\cdn.example", ("/\\cdn.example/",)),
        ("/", ("",)),
    ],
)
def test_any_other_redirect_is_withheld(url: str, locations: tuple[str, ...]) -> None:
    assert build_unpaid(redirect(*locations), paid_request(url)) is None


def test_a_handler_that_is_sold_itself_has_no_router_behind_it() -> None:
    assert build_unpaid(redirect("/sold/"), paid_request("/sold", None)) is None


@pytest.mark.parametrize("status", range(200, 400))
def test_only_a_redirect_that_clients_follow_is_made_anew(status: int) -> None:
    """Those of RFC 9110 that lead elsewhere, as a client of HTTP counts them."""
    answer = build_unpaid(redirect("/sold/", status=status), paid_request("/sold"))
    is_followed = httpx.Response(status, headers={"Location": "/sold/"}).has_redirect_location
    assert (answer is not None) == is_followed
    assert answer is None or (answer.status, answer.first("location")) == (status, "/sold/")
    above = build_plain_redirect(status, (("Location", "/sold/"),), "/sold", "", "", {"/sold"}.__contains__)
    assert (above is not None) == is_followed


@pytest.mark.parametrize("status", range(200, 600))
def test_a_handler_sells_by_default_what_docs_say(status: int) -> None:
    """Each success and each redirect that clients follow; below a prefix a redirect may be a login's."""
    client_answer = httpx.Response(status, headers={"Location": "/elsewhere"})
    is_success, is_redirect = client_answer.is_success, client_answer.has_redirect_location
    assert (status in paid_request("/sold", None).billable) == (is_success or is_redirect)
    assert (status in paid_request("/sold").billable) == is_success


def test_an_error_that_is_sold_may_be_a_result() -> None:
    sold = Offer("report", billable=frozenset((200, 404)))
    choice = OfferChoice("report", among=(Offer("other"), sold))
    assert [may_be_result(status, [sold]) for status in (404, 500)] == [True, False]
    assert [may_be_result(status, [choice]) for status in (404, 500)] == [True, False]


def find_target(location: str, url: str = "/a%20b/sold?x=1%202", host: str = "shop.example") -> str | None:
    """Where a redirect above a price may lead; `/login` is a page, `/a b` the root path."""
    headers = (("Location", location), ("X-Mark", "secret"))
    answer = build_plain_redirect(302, headers, url, "/a b", host, {"/login", "/"}.__contains__)
    assert answer is None or ("secret" not in str(answer) and answer.status == 302)
    return None if answer is None else answer.first("location")


@pytest.mark.parametrize(
    "location",
    [
        "/login",
        "/",
        "https://shop.example/login",
        "//shop.example/login",
        "https://shop.example/a%20b/sold?x=1%202",
        "/a%20b/sold/",
        "/login?next=/a%20b/sold",
        "/login?next=%2Fsold%3Fx%3D1%25202",
        "/login?return_url=https%3A%2F%2Fshop.example%2Fa%2520b%2Fsold",
        "/login?returnUrl=/a%20b/sold?x=1%202",
        "https://SHOP.example:443/login",
    ],
)
def test_a_redirect_that_tells_no_more_than_the_request_leaves(location: str) -> None:
    assert find_target(location) == location


@pytest.mark.parametrize(
    "location",
    [
        "/other",
        "/sold",
        "login",
        "",
        "//login",
        "/\\shop.example/login",
        "https://sso.example/login",
        "https://user@shop.example/login",
        "https://shop.example:444/login",
        "ftp://shop.example/login",
        "javascript:/login",
        "/login#secret",
        "/login?secret",
        "/login?x=1",
        "/login?next=secret",
        "/login?next=/secret",
        "/login?secret=/a%20b/sold",
        "/login?next=/a%20b/sold&more=secret",
        "/login?next=https://sso.example/a%20b/sold",
        "/login?next=/a%20b/sold%3Fsecret",
        "/login?next=/a%20b/sold%23secret",
        "/a%20b/sold?x=2",
        "http://[/login",
    ],
)
def test_a_redirect_that_may_tell_more_does_not(location: str) -> None:
    assert find_target(location) is None


def test_a_request_without_a_host_leads_to_no_host() -> None:
    assert (find_target("/login", host=""), find_target("//shop.example/login", host="")) == ("/login", None)
