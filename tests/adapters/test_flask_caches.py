"""Caches of a Flask app: no copy of a result leaves unpaid, and what is free stays as it is."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, after_this_request, request
from flask.views import MethodView
from flask_caching import Cache

from faregate.errors import ConfigurationError
from tests.adapters.flask_app import CONTENT, Seller, paywall, run

Keep = Callable[[Response], Any]

KEPT: dict[str, tuple[Keep, Callable[[Any], Response]]] = {
    "object": (lambda response: response, lambda kept: kept),
    "copy": (
        lambda response: (response.get_data(), response.status_code, list(response.headers)),
        lambda kept: Response(*kept),
    ),
    "body": (lambda response: response.get_data(), Response),
}
RESULTS: dict[str, Callable[[], Any]] = {
    "text": lambda: CONTENT.decode(),
    "dict": lambda: {"content": CONTENT.decode()},
    "tuple": lambda: (CONTENT, 200, {"X-More": "more"}),
    "response": lambda: Response(CONTENT),
}


def put_page_cache(app: Flask, keeps: str, is_polite: bool = False, by_hook: str = "after_request") -> None:
    """A page cache as sellers write it: by path, without its slash, whatever the method and the host."""
    pages: dict[str, Any] = {}
    keep, give = KEPT[keeps]

    def build_key() -> str:
        return "/" + "/".join(part for part in request.path.split("/") if part)

    def store(response: Response) -> Response:
        is_private = "no-store" in response.headers.get("Cache-Control", "")
        if response.status_code == 200 and not (is_polite and is_private):
            pages.setdefault(build_key(), keep(response))
        return response

    @app.before_request
    def look() -> Response | None:
        if build_key() in pages:
            return give(pages[build_key()])
        if by_hook == "after_this_request":
            after_this_request(store)
        return None

    if by_hook == "after_request":
        app.after_request(store)


def is_leaked(seller: Seller, method: str, path: str, **options: Any) -> bool:
    """Whether this request gets the result without a payment. What the server is told of is a 500."""
    try:
        return CONTENT in seller.ask(path, method=method, **options).data
    except ConfigurationError:
        return False


def list_leaks(seller: Seller, *requests: tuple[str, str], **options: Any) -> list[tuple[str, str]]:
    return [one for one in requests if is_leaked(seller, *one, **options)]


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("by_hook", ["after_request", "after_this_request"])
def test_a_cache_that_respects_headers_stores_no_result(by_hook: str, result: Callable[[], Any]) -> None:
    app = Flask("seller")
    put_page_cache(app, "body", is_polite=True, by_hook=by_hook)
    seller = Seller(app)
    app.add_url_rule("/sold", "free", lambda: "free")
    app.add_url_rule("/sold", "sold", paywall.paid("daily_report")(lambda: result()), methods=["POST"])
    app.add_url_rule("/page", "page", lambda: "page")
    for _ in range(2):
        assert CONTENT in seller.buy("/sold", method="POST").data
    assert not list_leaks(seller, ("GET", "/sold"), ("HEAD", "/sold"), ("OPTIONS", "/sold"))
    assert [seller.ask("/page").text for _ in range(2)] == ["page", "page"]
    assert len(seller.statuses) == 2


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("keeps", ["object", "copy"])
@pytest.mark.parametrize("group", [False, True], ids=["view", "group"])
def test_a_copy_with_its_headers_is_known_where_the_method_is_free(
    keeps: str, result: Callable[[], Any], group: bool
) -> None:
    app = Flask("seller")
    put_page_cache(app, keeps)
    seller = Seller(app)
    app.add_url_rule("/sold", "free", paywall.exempt(lambda: "free") if group else lambda: "free")
    if group:
        paywall.paid_all(app, "daily_report")
    view: Any = (lambda: result()) if group else paywall.paid("daily_report")(lambda: result())
    app.add_url_rule("/sold", "sold", view, methods=["POST"])
    assert CONTENT in seller.buy("/sold", method="POST").data
    assert not list_leaks(
        seller, ("GET", "/sold"), ("HEAD", "/sold"), ("OPTIONS", "/sold"), ("POST", "/sold")
    )


@pytest.mark.parametrize("keeps", KEPT)
def test_a_copy_is_known_where_the_router_redirects(keeps: str) -> None:
    app = Flask("seller")
    put_page_cache(app, keeps)
    seller = Seller(app)
    seller.sells(lambda: CONTENT.decode(), "/sold/", endpoint="sold")
    app.add_url_rule("/page/1", "page", lambda: "free")
    app.add_url_rule("/old", "old", redirect_to="/sold/")
    for method in ("GET", "OPTIONS"):
        assert seller.ask("/sold", method=method).status_code == 308
    assert [seller.ask(path).status_code for path in ("/page//1", "/old?x=1", "/none")] == [308, 308, 404]
    assert CONTENT in seller.buy("/sold/").data
    spellings = [(method, path) for method in ("GET", "HEAD", "OPTIONS") for path in ("/sold", "/sold//")]
    assert not list_leaks(seller, *spellings, ("GET", "/sold/"))


@pytest.mark.parametrize("keeps", KEPT)
@pytest.mark.parametrize("by", ["host", "subdomain"])
def test_a_copy_is_known_on_any_host(keeps: str, by: str) -> None:
    by_host = by == "host"
    if by_host:
        app = Flask("seller", host_matching=True, static_host="static.example")
        place = {"host": "shop.example"}
    else:
        app = Flask("seller", subdomain_matching=True)
        app.config["SERVER_NAME"] = "example"
        place = {"subdomain": "shop"}

    @app.before_request
    def lead_to_the_shop() -> Any:
        return Response(status=301, headers={"Location": "http://shop.example/sold"}) if moved else None

    moved: list[bool] = []
    put_page_cache(app, keeps)
    seller = Seller(app)
    seller.sells(lambda: CONTENT.decode(), "/sold", endpoint="sold", **place)
    shop: Any = {"base_url": "http://shop.example"}
    other: Any = {"base_url": "http://other.example"}
    assert seller.ask("/sold", **other).status_code == 404
    assert CONTENT in seller.buy("/sold", **shop).data
    assert not list_leaks(seller, ("GET", "/sold"), ("HEAD", "/sold"), **other)
    moved.append(True)
    assert seller.ask("/sold", **other).status_code == 301


def test_a_class_with_a_free_get_keeps_its_own_caching() -> None:
    app = Flask("seller")
    put_page_cache(app, "copy", is_polite=True)
    seller = Seller(app)

    class Page(MethodView):
        def get(self) -> Response:
            return Response("free", headers={"Cache-Control": "public, max-age=60"})

        @paywall.paid("daily_report")
        def post(self) -> str:
            return CONTENT.decode()

    app.add_url_rule("/sold", view_func=Page.as_view("page"))
    answers = [seller.ask("/sold") for _ in range(2)]
    assert [answer.headers["Cache-Control"] for answer in answers] == ["public, max-age=60"] * 2


# Flask-Caching

Place = Callable[[Flask, Any], None]


def price() -> Any:
    return paywall.paid("daily_report")


def get_and_post(app: Flask, cached: Any) -> None:
    app.add_url_rule("/sold", "free", cached(lambda: "free"))
    app.add_url_rule("/sold", "sold", price()(cached(lambda: CONTENT.decode())), methods=["POST"])


def parameters(app: Flask, cached: Any) -> None:
    def free(name: str) -> str:
        return f"free{name[4:]}"

    app.add_url_rule("/<any(sold):name>", "free", cached(free))
    app.add_url_rule("/sold", "sold", price()(cached(lambda: CONTENT.decode())), methods=["POST"])


def methods(app: Flask, cached: Any) -> None:
    class Page(MethodView):
        @cached  # type: ignore[untyped-decorator]
        def get(self) -> str:
            return "free"

        @price()  # type: ignore[untyped-decorator]
        @cached  # type: ignore[untyped-decorator]
        def post(self) -> str:
            return CONTENT.decode()

    app.add_url_rule("/sold", view_func=Page.as_view("page"))


def group(app: Flask, cached: Any) -> None:
    blueprint = Blueprint("group", "group", url_prefix="/sold")
    paywall.paid_all(blueprint, "daily_report")
    blueprint.add_url_rule("", "sold", cached(lambda: CONTENT.decode()), methods=["POST"])
    app.register_blueprint(blueprint)
    app.add_url_rule("/sold", "free", cached(lambda: "free"))


def other_offer(app: Flask, cached: Any) -> None:
    other = paywall.paid("free_notes")(cached(lambda: "free"))
    app.add_url_rule("/sold", "free", other)
    app.add_url_rule("/sold", "sold", price()(cached(lambda: CONTENT.decode())), methods=["POST"])


def class_decorators(app: Flask, cached: Any) -> None:
    class Page(MethodView):
        decorators = [cached]  # noqa: RUF012

        def get(self) -> str:
            return "free"

        @price()  # type: ignore[untyped-decorator]
        def post(self) -> str:
            return CONTENT.decode()

    app.add_url_rule("/sold", view_func=Page.as_view("page"))


def around_a_class(app: Flask, cached: Any) -> None:
    class Page(MethodView):
        def get(self) -> str:
            return "free"

        @price()  # type: ignore[untyped-decorator]
        def post(self) -> str:
            return CONTENT.decode()

    app.add_url_rule("/sold", view_func=cached(Page.as_view("page")))


SHARED = (get_and_post, parameters, methods, group, other_offer)
ABOVE = (class_decorators, around_a_class)


def make_cached(place: Place, **options: Any) -> Seller:
    app = Flask("seller")
    app.config["CACHE_TYPE"] = "SimpleCache"
    cache: Any = Cache(app)
    seller = Seller(app)
    place(app, cache.cached(timeout=60, **options))
    return seller


@pytest.mark.parametrize("options", [{}, {"query_string": True}, {"key_prefix": "word"}], ids=str)
@pytest.mark.parametrize("place", [*SHARED, *ABOVE])
def test_flask_caching_with_a_key_that_others_read_is_an_error(
    place: Place, options: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seller = make_cached(place, **options)
    free = (500, False) if place is other_offer else (200, True)  # that is sold, too
    answer = seller.ask("/sold")
    assert (answer.status_code, answer.text == "free") == free
    assert seller.buy("/sold", method="POST").status_code == 500
    assert ("another key" if place in SHARED else "put @cache.cached below") in caplog.text
    assert (seller.ask("/sold").text == "free") is free[1]
    assert run(seller, "routes")[0] == 1


@pytest.mark.parametrize("by", ["host", "word"])
def test_flask_caching_on_two_hosts_or_under_one_word_is_an_error(by: str) -> None:
    app = Flask("seller", host_matching=True, static_host="static.example")
    app.config["CACHE_TYPE"] = "SimpleCache"
    cache: Any = Cache(app)
    cached = cache.cached(60, key_prefix="word" if by == "word" else "view/%s")
    seller = Seller(app)
    app.add_url_rule("/sold", "sold", price()(cached(lambda: CONTENT.decode())), host="shop.example")
    path = "/other" if by == "word" else "/sold"
    app.add_url_rule(path, "free", cached(lambda: "free"), host="free.example")
    assert seller.buy("/sold", base_url="http://shop.example").status_code == 500
    assert seller.ask(path, base_url="http://free.example").text == "free"


def test_flask_caching_is_looked_at_for_each_route_of_a_view() -> None:
    app = Flask("seller")
    app.config["CACHE_TYPE"] = "SimpleCache"
    cache: Any = Cache(app)
    seller = Seller(app)
    sold = price()(cache.cached(60)(lambda: CONTENT.decode()))
    app.add_url_rule("/sold", "sold", sold)
    app.add_url_rule("/other", "sold", sold)
    app.add_url_rule("/other", "free", cache.cached(60)(lambda: "free"), methods=["POST"])
    assert CONTENT in seller.buy("/sold").data
    assert seller.buy("/other").status_code == 500
    assert seller.ask("/other", method="POST").text == "free"


@pytest.mark.parametrize("place", SHARED)
def test_flask_caching_with_keys_of_their_own_is_well(place: Place) -> None:
    app = Flask("seller")
    app.config["CACHE_TYPE"] = "SimpleCache"
    cache: Any = Cache(app)
    seller = Seller(app)
    count = iter(range(9))

    def cached(view: Any) -> Any:
        return cache.cached(60, key_prefix=f"{next(count)}/%s")(view)

    place(app, cached)
    for _ in range(2):
        assert CONTENT in seller.buy("/sold", method="POST").data
        assert not list_leaks(seller, ("GET", "/sold"), ("HEAD", "/sold"))
    assert run(seller, "routes")[0] == 0


def test_flask_caching_below_prices_that_share_nothing_is_well() -> None:
    app = Flask("seller")
    app.config["CACHE_TYPE"] = "SimpleCache"
    cache: Any = Cache(app)
    seller = Seller(app)
    app.add_url_rule("/sold", "sold", price()(cache.cached(60)(lambda: CONTENT.decode())))
    app.add_url_rule("/sold/x", "below", price()(cache.cached(60)(lambda: CONTENT.decode())))
    app.add_url_rule("/free", "free", cache.cached(60)(lambda: "free"))
    app.add_url_rule("/sold", "posted", lambda: "posted", methods=["POST"])
    app.add_url_rule("/memo", "memo", price()(cache.memoize(60)(lambda: CONTENT.decode())))

    def other() -> str:  # `memoize` has the function's name in its key
        return "free"

    app.add_url_rule("/memo", "other", cache.memoize(60)(other), methods=["POST"])
    for path in ("/sold", "/sold/x", "/memo"):
        assert [CONTENT in seller.buy(path).data for _ in range(2)] == [True, True]
    assert [seller.ask("/free").text, seller.ask("/memo", method="POST").text] == ["free", "free"]
