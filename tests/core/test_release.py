"""What may leave unpaid: each status, and the redirects that a router makes."""

import pytest

from faregate.core.models import Offer, PaidRequest, Request, Response
from faregate.core.release import build_unpaid, may_be_result


def paid_request(url: str, prefix_host: str | None = "shop.example") -> PaidRequest:
    return PaidRequest(Offer("report"), Request("GET", url), "", 1.0, 1, prefix_host=prefix_host)


def redirect(*locations: str, status: int = 307) -> Response:
    mark = (("Set-Cookie", "secret=1"), ("X-Mark", "secret"))
    return Response(status, (*(("Location", to) for to in locations), *mark), b"secret")


@pytest.mark.parametrize("status", range(200, 600))
def test_only_errors_leave_unpaid(status: int) -> None:
    answer = build_unpaid(Response(status, (), b"body"), paid_request("/sold", None))
    assert (answer is not None) == (status >= 400)
    assert may_be_result(status) == (status < 400 or status == 402)


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("/sold", "/sold/", "/sold/"),
        ("/sold/", "http://shop.example/sold", "/sold"),
        ("/sold?a=1", "https://shop.example/sold/?a=1", "/sold/?a=1"),
        ("/s%C3%B6ld", "/söld/", "/s%C3%B6ld/"),
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


def test_only_a_redirect_is_made_anew() -> None:
    assert build_unpaid(redirect("/sold/", status=201), paid_request("/sold")) is None
