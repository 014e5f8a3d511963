"""Every place at which a price can be put in Flask: the view is sold, or refused with a sentence."""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, jsonify, redirect, request
from flask.views import MethodView, View
from flask_caching import Cache
from flask_login import LoginManager, UserMixin, login_required
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import Rule
from werkzeug.test import Client, TestResponse, create_environ, run_wsgi_app
from whitenoise import WhiteNoise

from faregate.emulator import TEST_KEY, Wallet
from faregate.errors import ConfigurationError
from faregate.flask import Faregate, list_routes, price_placement
from faregate.flask.middleware import NAME
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware
from tests.adapters.decorators import with_wraps, without_wraps
from tests.adapters.flask_app import Seller, paywall, run
from tests.support.products import take_part

CONTENT = b"paid-content-4711"
MEMBER = {"X-User": "member"}

Decorator = Callable[[Any], Any]


class Member(UserMixin):  # type: ignore[misc]
    id = "member"


@pytest.fixture
def seller() -> Seller:
    app = Flask("seller")
    app.config["CACHE_TYPE"] = "SimpleCache"
    manager = LoginManager(app)
    manager.login_view = "login"
    manager.request_loader(lambda asked: Member() if "X-User" in asked.headers else None)
    app.add_url_rule("/login", "login", lambda: "log in")
    return Seller(app)


def remembering(view: Any) -> Any:
    """A cache of a seller's own, which knows no marks."""
    remembered: dict[str, Any] = {}

    @functools.wraps(view)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if request.path not in remembered:
            remembered[request.path] = view(*args, **kwargs)
        return remembered[request.path]

    return inner


def respecting(view: Any) -> Any:
    """A cache of a seller's own, which leaves alone what is not to be stored."""
    remembered: dict[str, Response] = {}

    def inner(*args: Any, **kwargs: Any) -> Any:
        if request.path in remembered:
            return remembered[request.path]
        answer = view(*args, **kwargs)
        if answer.status_code == 200 and not {"private", "no-store"} & set(
            answer.headers.get("Cache-Control", "").split(", ")
        ):
            remembered[request.path] = answer
        return answer

    return inner


PRICE = "price"
ROUTE = "route"
OTHERS: dict[str, Decorator] = {
    "wraps": with_wraps,
    "no wraps": without_wraps,
    "login": login_required,
    "cache": Cache().cached(),  # replaced by the app's own
    "own cache": remembering,
    "respectful cache": respecting,
}

BYPASSED = "put @app.route above @paywall.paid"
CACHED = "put @cache.cached below @paywall.paid"
ANSWERED = "was answered by something above its price"
LOGIN = "Put @login_required above @paywall.paid"


def expected(order: tuple[str, ...]) -> str:
    """What must become of a view that is decorated so, the outermost first."""
    if "login" in order[order.index(PRICE) :]:
        return LOGIN
    if order.index(ROUTE) > order.index(PRICE):
        return BYPASSED
    above_price = order[order.index(ROUTE) : order.index(PRICE)]
    if "cache" in above_price:
        return CACHED
    if "own cache" in above_price:
        return ANSWERED
    return "sold"


def every_order() -> Iterator[tuple[str, ...]]:
    for number in (0, 1, 2):
        for chosen in itertools.combinations(OTHERS, number):
            yield from itertools.permutations((ROUTE, PRICE, *chosen))


CELLS = take_part(((order,) for order in every_order()), lambda order: len(order) < 4)


@pytest.mark.parametrize("order", CELLS, ids="-".join)
def test_every_order_of_decorators_is_sold_or_refused(
    seller: Seller, order: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    known: dict[str, Decorator] = {
        **OTHERS,
        ROUTE: seller.app.get("/sold"),
        PRICE: paywall.paid("daily_report"),
        "cache": Cache(seller.app).cached(timeout=60),
    }

    def view() -> Response:
        seller.runs.append("ran")
        return Response(CONTENT)

    found = expected(order)

    def decorate() -> None:
        functools.reduce(lambda made, name: known[name](made), reversed(order), view)

    if found == LOGIN:
        with pytest.raises(ConfigurationError, match=LOGIN):
            decorate()
        return
    decorate()
    answers = [
        bought for _ in range(2) for bought in (look(seller), buy(seller), look(seller), look(seller, {}))
    ]
    for answer in answers[0::4] + answers[2::4] + answers[3::4]:
        assert CONTENT not in answer.data
    bought = answers[1::4]
    if found == "sold":
        assert [(answer.status_code, answer.data) for answer in bought] == [(200, CONTENT)] * 2
        assert all("PAYMENT-REQUIRED" in answers[place].headers for place in (0, 2, 4, 6))
        assert (len(seller.statuses), set(seller.statuses)) == (2, {"succeeded"})
        return
    assert found in caplog.text
    assert {answer.status_code for answer in answers[2:]} <= {500, 502, 302}
    assert [answer.status_code for answer in bought if CONTENT in answer.data] in ([], [200])
    if found != ANSWERED:
        assert (seller.runs, seller.statuses, run(seller, "routes")[0]) == ([], [], 1)
        assert found in run(seller, "routes")[1]
        assert (run(seller, "check")[0], found in run(seller, "check")[1]) == (1, True)


def look(seller: Seller, headers: dict[str, str] = MEMBER) -> TestResponse:
    return seller.ask("/sold", headers=headers)


def buy(seller: Seller) -> TestResponse:
    unpaid = look(seller)
    if "PAYMENT-REQUIRED" not in unpaid.headers:
        return unpaid
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    return look(seller, {**MEMBER, "PAYMENT-SIGNATURE": proof})


# Class-based views


def page(runs: list[str]) -> type[MethodView]:
    class Page(MethodView):
        def get(self) -> Response:
            runs.append("ran")
            return Response(CONTENT)

    return Page


@pytest.mark.parametrize("order", [("price", "login"), ("login", "price")], ids="-".join)
def test_decorators_of_a_class_are_sold_or_refused(seller: Seller, order: tuple[str, ...]) -> None:
    """Flask applies a class's `decorators` in their order: the last is the outermost."""
    known: dict[str, Any] = {"price": paywall.paid("daily_report"), "login": login_required}
    kind: Any = page(seller.runs)
    kind.decorators = [known[name] for name in order]
    if order == ("login", "price"):
        with pytest.raises(ConfigurationError, match=LOGIN):
            kind.as_view("sold")
        return
    seller.app.add_url_rule("/sold", view_func=kind.as_view("sold"))
    assert look(seller, {}).status_code == 302
    assert (buy(seller).data, look(seller).status_code) == (CONTENT, 402)


@pytest.mark.parametrize("above", [True, False])
def test_a_cache_on_a_class_or_a_method(
    seller: Seller, above: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cached: Any
    price: Any
    cached, price = Cache(seller.app).cached(timeout=60), paywall.paid("daily_report")
    decorators = [price, cached] if above else [cached, price]
    on_class: Any = page(seller.runs)
    on_class.decorators = decorators
    on_method: Any = page(seller.runs)
    on_method.get = functools.reduce(lambda made, one: one(made), decorators, on_method.get)
    seller.app.add_url_rule("/class", view_func=on_class.as_view("on_class"))
    seller.app.add_url_rule("/method", view_func=on_method.as_view("on_method"))
    for path in ("/class", "/method"):
        unpaid = seller.ask(path)
        if above:
            assert (unpaid.status_code, CACHED in caplog.text, seller.runs) == (500, True, [])
            caplog.clear()
        else:
            assert (unpaid.status_code, seller.buy(path).data) == (402, CONTENT)
            assert seller.ask(path).status_code == 402


def test_a_price_around_a_class_s_view(seller: Seller) -> None:
    seller.app.add_url_rule(
        "/sold", view_func=paywall.paid("daily_report")(page(seller.runs).as_view("sold"))
    )
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)


def test_a_price_on_what_dispatches(seller: Seller) -> None:
    class Page(View):
        @paywall.paid("daily_report")
        def dispatch_request(self) -> bytes:
            return CONTENT

    seller.app.add_url_rule("/sold", view_func=Page.as_view("sold"))
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)


class Resource(MethodView):
    """Puts decorators on its methods with each request, as that of Flask-RESTful."""

    method_decorators: Any = ()

    def dispatch_request(self, **kwargs: Any) -> Any:
        method = request.method.lower()
        view = getattr(self, method, self.get)
        named = self.method_decorators
        for decorate in named.get(method, []) if isinstance(named, dict) else named:
            view = decorate(view)
        return view(**kwargs)

    def get(self) -> Response:
        return Response(CONTENT, headers={"X-Paid-Content": CONTENT.decode()})


PRICES: list[Any] = [paywall.paid("daily_report")]


@pytest.mark.parametrize("decorators", [PRICES, {"get": PRICES, "head": PRICES}])
def test_a_price_that_a_class_puts_on_its_methods_is_found(seller: Seller, decorators: Any) -> None:
    page: Any = type("Page", (Resource,), {"method_decorators": decorators})
    seller.app.add_url_rule("/sold", view_func=page.as_view("sold"))
    answers: dict[str, Any] = {"given": "what a cache kept", "refused": ("members only", 403)}
    seller.app.before_request(lambda: answers.get(request.args.get("answer", "")))
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)
    assert seller.ask("/sold", method="HEAD").status_code == 402
    assert [seller.ask(f"/sold?answer={name}").status_code for name in answers] == [502, 403]
    assert {row.path: row.access for row in list_routes(seller.app).routes}["/sold"] == "paid"


def test_a_price_that_a_class_puts_on_get_alone_gives_no_head_away(
    seller: Seller, caplog: pytest.LogCaptureFixture
) -> None:
    page: Any = type("Page", (Resource,), {"method_decorators": {"get": PRICES}})
    seller.app.add_url_rule("/sold", view_func=page.as_view("sold"))
    for method in ("GET", "HEAD"):
        unpaid = seller.ask("/sold", method=method)
        assert (unpaid.status_code, unpaid.headers.get("X-Paid-Content")) == (500, None)
    assert "name 'head' in method_decorators" in caplog.text
    assert run(seller, "routes")[0] == 1


# What is written by mistake


def test_without_parentheses_it_fails_the_import() -> None:
    with pytest.raises(ConfigurationError, match="with parentheses"):
        paywall.paid(with_wraps)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="with parentheses"):
        paywall.paid(lambda: CONTENT)  # type: ignore[call-overload]


@pytest.mark.parametrize("swapped", ["daily_report", None])
def test_a_group_that_is_none_fails_the_import(swapped: Any) -> None:
    with pytest.raises(ConfigurationError, match="paid_all"):
        paywall.paid_all(swapped, "daily_report")


def test_what_is_no_app_fails_the_start() -> None:
    with pytest.raises(ConfigurationError, match="Flask app"):
        Faregate("seller")  # type: ignore[arg-type]


def test_a_price_given_to_before_request_is_an_error(
    seller: Seller, caplog: pytest.LogCaptureFixture
) -> None:
    seller.app.before_request(paywall.paid("daily_report"))  # type: ignore[type-var]
    seller.app.add_url_rule("/sold", view_func=lambda: CONTENT)
    answer = look(seller)
    assert (answer.status_code, CONTENT in answer.data) == (500, False)
    assert "paid_all" in caplog.text


def test_a_price_on_a_function_before_the_request_sells_what_follows(seller: Seller) -> None:
    blueprint = Blueprint("sold", "sold")

    @blueprint.before_request
    @paywall.paid("daily_report")
    def before() -> None:
        return None

    blueprint.add_url_rule("/sold", view_func=lambda: CONTENT)
    seller.app.register_blueprint(blueprint)
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)
    assert [row.access for row in list_routes(seller.app).routes if row.path == "/sold"] == ["paid"]


@pytest.mark.parametrize("decorate", [with_wraps, without_wraps])
def test_a_function_that_is_sold_is_given_away_on_no_other_route(
    seller: Seller, decorate: Decorator, caplog: pytest.LogCaptureFixture
) -> None:
    def view() -> bytes:
        return CONTENT

    seller.app.add_url_rule("/sold", "sold", paywall.paid("daily_report")(decorate(view)))
    seller.app.add_url_rule("/free", "free", view)
    assert buy(seller).data == CONTENT
    assert (seller.ask("/free").status_code, BYPASSED in caplog.text) == (500, True)
    assert run(seller, "routes")[0] == 1


@pytest.mark.parametrize("decorate", [lambda view: view, with_wraps])
def test_a_class_that_is_sold_is_given_away_on_no_other_route(
    seller: Seller, decorate: Decorator, caplog: pytest.LogCaptureFixture
) -> None:
    class Report(MethodView):
        def __init__(self, text: str) -> None:
            self.text = text

        def get(self) -> str:
            return self.text

    sold, content = paywall.paid("daily_report"), CONTENT.decode()
    seller.app.add_url_rule("/sold", view_func=sold(decorate(Report.as_view("sold", content))))
    seller.app.add_url_rule("/copy", view_func=decorate(Report.as_view("copy", content)))
    seller.app.add_url_rule("/free", view_func=decorate(Report.as_view("free", "free")))
    assert buy(seller).data == CONTENT
    assert seller.ask("/free").text == "free"
    assert (seller.ask("/copy").status_code, BYPASSED in caplog.text) == (500, True)
    assert run(seller, "routes")[0] == 1


def test_a_view_that_speaks_of_another_is_not_taken_for_its_wrapper(seller: Seller) -> None:
    @seller.app.get("/free")
    def free() -> str:
        return "free"

    @seller.app.get("/sold")
    @paywall.paid("daily_report")
    def sold() -> bytes:
        return CONTENT + free().encode()

    @seller.app.get("/link")
    def link() -> Any:
        return redirect("/sold") if request.args else jsonify(sold.__name__)

    assert seller.ask("/free").text == "free"
    assert seller.ask("/link").get_json() == "sold"
    assert buy(seller).data == CONTENT + b"free"


def test_a_login_in_a_sold_blueprint_is_refused(seller: Seller, caplog: pytest.LogCaptureFixture) -> None:
    blueprint = Blueprint("sold", "sold")
    paywall.paid_all(blueprint, "daily_report")
    blueprint.add_url_rule("/sold", view_func=login_required(lambda: CONTENT), endpoint="view")
    seller.app.register_blueprint(blueprint)
    assert (look(seller, {}).status_code, look(seller).status_code) == (500, 500)
    assert "authentication" in caplog.text
    assert run(seller, "routes")[0] == 1


def test_a_mounted_app_without_a_paywall_of_its_own_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    inner = Flask("inner")
    inner.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: CONTENT))
    for inside in (True, False):
        outer = Flask("outer")
        outer.config["FAREGATE_BASE_URL"] = "emulator:"
        mounted: Any = DispatcherMiddleware(outer.wsgi_app, {"/inner": inner})
        if inside:
            outer.wsgi_app = mounted  # type: ignore[method-assign]
        Faregate(outer)
        answer = Client(outer if inside else mounted).get("/inner/sold")
        assert (answer.status_code, CONTENT in answer.data) == (500, False)
        assert "paywall.init_app(app)" in caplog.text


def test_the_extension_may_come_after_the_routes() -> None:
    app = Flask("seller")
    app.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: CONTENT))
    seller = Seller(app)
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)


@pytest.mark.parametrize(
    "rules", [{"FAREGATE_OFFERS": {"/closed": "daily_report"}}, {"FAREGATE_REFUSE": ["/closed"]}]
)
@pytest.mark.parametrize("mounted", [False, True])
def test_a_request_past_the_paywall_reaches_nothing_below_a_prefix(
    rules: dict[str, Any], mounted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """`application = ProxyFix(app.wsgi_app)` before the extension: a server then never calls the paywall."""
    app = Flask("seller")
    app.config.update(rules)
    served: Any = ProxyFix(app.wsgi_app)
    seller = Seller(app)
    app.add_url_rule("/closed/x", "closed", lambda: CONTENT)
    app.add_url_rule("/free", "free", lambda: "free")
    app.before_request(lambda: CONTENT if request.path == "/closed/before" else None)
    if mounted:  # in an app with a paywall of its own
        outer = Flask("outer")
        outer.wsgi_app = DispatcherMiddleware(outer.wsgi_app, {"/in": served})  # type: ignore[method-assign]
        Seller(outer)
        served = outer
    root = "/in" if mounted else ""
    for path in ("/closed/x", "/closed/before"):
        answer = Client(served).get(root + path)
        assert (answer.status_code, CONTENT in answer.data) == (500, False)
    assert "came past the paywall" in caplog.text
    assert Client(served).get(f"{root}/free").text == "free"
    assert seller.ask("/closed/x").status_code in (402, 403)


def test_a_paywall_inside_the_one_of_the_app_is_none_that_was_passed_by() -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_OFFERS={"/sold": "daily_report"})
    inner = Paywall(base_url="emulator:", environ={})
    app.wsgi_app = PaywallMiddleware(app.wsgi_app, inner)  # type: ignore[method-assign]
    seller = Seller(app)
    app.add_url_rule("/sold", view_func=lambda: CONTENT)
    assert (look(seller).status_code, buy(seller).data) == (402, CONTENT)


@pytest.mark.parametrize("method", ["head", "get", "Get"])
def test_a_method_in_lower_case_is_sold_as_the_framework_reads_it(seller: Seller, method: str) -> None:
    kept: list[bytes] = []
    seller.app.before_request(lambda: Response(kept[0]) if kept else None)
    seller.app.add_url_rule("/sold", view_func=PaidGet.as_view("sold"))

    def ask(**more: Any) -> int:
        environ = create_environ("/sold", method="GET", headers=more.get("headers"))
        environ |= {"REQUEST_METHOD": method, "REMOTE_ADDR": "127.0.0.1"}
        try:
            answer = run_wsgi_app(seller.app.wsgi_app, environ, buffered=True)
        except ConfigurationError:
            return 500
        assert (CONTENT in b"".join(answer[0])) is more.get("is_content", False)
        return int(answer[1][:3])

    proof = seller.proof("/sold")
    assert ask() == 402
    condition = {**proof, "Range": "bytes=0-3", "If-None-Match": "*"}
    assert ask(headers=condition, is_content=method != "head") == 200
    kept.append(CONTENT)
    assert ask() in (500, 502)


class PaidGet(MethodView):
    @paywall.paid("daily_report")
    def get(self) -> Response:
        response = Response(CONTENT)
        response.add_etag()
        response.make_conditional(request, accept_ranges=True, complete_length=len(CONTENT))
        return response


@pytest.mark.parametrize("sold", ["app", "parent", "child"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_login_of_a_sold_group_answers_before_anybody_pays(
    seller: Seller, sold: str, is_first: bool
) -> None:
    parent, child = Blueprint("parent", "parent"), Blueprint("child", "child")
    groups: dict[str, Any] = {"app": seller.app, "parent": parent, "child": child}

    def ask_for_login() -> Any:
        seller.runs.append("login")
        return None if "X-User" in request.headers or request.path == "/login" else redirect("/login")

    def sell() -> None:
        paywall.paid_all(groups[sold], "daily_report")

    if not is_first:
        sell()
    child.before_request(ask_for_login)
    if is_first:
        sell()
    child.add_url_rule("/sold", view_func=lambda: CONTENT)
    seller.app.view_functions["login"] = paywall.exempt(lambda: "log in")
    parent.register_blueprint(child)
    seller.app.register_blueprint(parent)
    assert look(seller, {}).status_code == 302
    proof = {"PAYMENT-SIGNATURE": Wallet().pay(look(seller).headers["PAYMENT-REQUIRED"])}
    for _ in range(2):
        answer = look(seller, proof)
        assert (answer.status_code, answer.headers.get("PAYMENT-RESPONSE")) == (302, None)
    assert seller.statuses == []
    assert look(seller, {**MEMBER, **proof}).data == CONTENT
    assert (buy(seller).data, seller.statuses) == (CONTENT, ["succeeded"] * 2)


# What answers in the view's place


def test_whoever_answers_before_a_sold_blueprint_may_refuse_and_not_give(
    seller: Seller, caplog: pytest.LogCaptureFixture
) -> None:
    answers: dict[str, Any] = {
        "given": CONTENT,
        "changed": ("", 304),
        "refused": ("members only", 403),
        "elsewhere": redirect("/login"),
    }

    @seller.app.before_request
    def first() -> Any:
        return answers.get(request.args.get("answer", ""))

    blueprint = Blueprint("sold", "sold")
    paywall.paid_all(blueprint, "daily_report")
    blueprint.add_url_rule("/sold", view_func=lambda: CONTENT)
    seller.app.register_blueprint(blueprint)
    statuses = [seller.ask(f"/sold?answer={name}").status_code for name in answers]
    assert statuses == [502, 502, 403, 302]
    assert ANSWERED in caplog.text
    assert seller.ask("/login?answer=given").data == CONTENT
    assert seller.ask("/sold", method="OPTIONS").status_code == 200


def test_what_a_function_after_the_request_makes_of_a_refusal_is_withheld() -> None:
    """Also of one that is older than the extension."""
    app = Flask("seller")

    @app.after_request
    def generous(response: Response) -> Response:
        if response.status_code == 403:
            response.status_code, response.data = 200, CONTENT
        return response

    seller = Seller(app)
    app.before_request(lambda: ("members only", 403))
    app.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: CONTENT))
    answer = look(seller)
    assert (answer.status_code, CONTENT in answer.data) == (502, False)


def test_an_error_page_that_says_it_is_well_does_not_cover_a_mistake(seller: Seller) -> None:
    seller.app.register_error_handler(Exception, lambda _error: (CONTENT, 200))
    seller.app.add_url_rule("/sold", view_func=remembering(paywall.paid("daily_report")(lambda: CONTENT)))
    for _ in range(2):
        answer = look(seller)
        assert CONTENT not in answer.data
    assert (answer.status_code, answer.get_json()["code"]) == (502, "payment_service_unavailable")


# Caching of what is sold and of what is free


@pytest.mark.parametrize(
    ("said", "paid", "free"),
    [
        (None, "private, no-store", None),
        ("public, max-age=60", "private, no-store", "public, max-age=60"),
        (
            "private, no-store, no-transform",
            "private, no-store, no-transform",
            "private, no-store, no-transform",
        ),
    ],
)
def test_what_a_view_says_about_caching_is_heard_where_it_may_be(
    seller: Seller, said: str | None, paid: str, free: str | None
) -> None:
    def view() -> Response:
        response = Response(CONTENT)
        if said is not None:
            response.headers["Cache-Control"] = said
        return response

    seen = list[str]()

    def above(view: Any) -> Any:
        def inner() -> Any:
            response = view()
            seen.append(response.headers["Cache-Control"])
            return response

        return inner

    seller.app.add_url_rule("/sold", "sold", above(paywall.paid("daily_report")(view)))
    seller.app.add_url_rule("/free", "free", above(paywall.paid("free_notes")(lambda: view())))
    assert buy(seller).headers.get("Cache-Control") == paid
    assert seller.ask("/free").headers.get("Cache-Control") == free
    assert set(seen) == {"private, no-store"}


# Refused prefixes


def test_what_is_refused_does_not_run() -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_REFUSE=["/closed"])
    seller = Seller(app)

    def view() -> bytes:
        seller.runs.append(request.path)
        return CONTENT

    @app.before_request
    def before() -> None:
        seller.runs.append("before")

    group = Blueprint("group", "group", url_prefix="/closed/group")
    paywall.paid_all(group, "daily_report")
    group.add_url_rule("/sold", view_func=lambda: CONTENT, endpoint="sold")
    group.add_url_rule("/exempt", view_func=paywall.exempt(lambda: view()), endpoint="exempt")
    app.register_blueprint(group)
    app.add_url_rule("/closed/<name>", "closed", view, methods=["GET", "POST"])
    app.add_url_rule("/closed/class", view_func=page(seller.runs).as_view("page"))
    app.add_url_rule("/closed/sold", "sold", paywall.paid("daily_report")(lambda: CONTENT))
    for path in ("/closed/x", "/closed/class", "/closed/group/exempt", "/closed/nothing/here"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            answer = seller.ask(path, method=method)
            assert (answer.status_code, CONTENT in answer.data) == (403, False), (path, method)
    assert [one for one in seller.runs if one != "before"] == []
    assert seller.buy("/closed/sold").data == CONTENT
    assert seller.buy("/closed/group/sold").data == CONTENT


# What answers outside of the paywall


@pytest.mark.parametrize("autorefresh", [False, True])
@pytest.mark.parametrize("name", ["reports/today", "drafts/x", "sold", "group/a/b"])
def test_whitenoise_outside_with_a_file_that_is_sold_is_an_error(
    name: str, autorefresh: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(CONTENT)
    (tmp_path / "robots.txt").write_text("free")

    def made(inside: bool) -> Seller:
        app = Flask("seller")
        app.config.update(FAREGATE_OFFERS={"/reports": "daily_report"}, FAREGATE_REFUSE=["/drafts"])
        group = Blueprint("group", "group", url_prefix="/group")
        paywall.paid_all(group, "daily_report")
        group.add_url_rule("/<path:rest>", view_func=lambda rest: CONTENT, endpoint="all")
        app.register_blueprint(group)
        app.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: CONTENT))
        app.add_url_rule("/free", endpoint="free", view_func=lambda: "free")
        if inside:
            app.wsgi_app = around(app)  # type: ignore[method-assign]
        seller = Seller(app)
        if not inside:
            app.wsgi_app = with_wraps(around(app))  # type: ignore[method-assign]
        return seller

    def around(app: Flask) -> Any:
        return WhiteNoise(app.wsgi_app, root=str(tmp_path), autorefresh=autorefresh)

    outside = made(inside=False)
    assert (outside.ask("/free").status_code, f"has a file at /{name}" in caplog.text) == (500, True)
    assert (run(outside, "routes")[0], run(outside, "check")[0]) == (1, 1)
    inside = made(inside=True)
    inside.app.testing = True
    assert (inside.ask("/free").text, inside.ask("/robots.txt").text) == ("free", "free")
    if name == "reports/today":
        assert (inside.ask(f"/{name}").status_code, inside.buy(f"/{name}").data) == (402, CONTENT)
    elif name == "drafts/x":
        assert inside.ask(f"/{name}").status_code == 403
    else:
        with pytest.raises(ConfigurationError, match=ANSWERED):
            inside.ask(f"/{name}")
    (tmp_path / name).unlink()
    assert made(inside=False).ask("/free").text == "free"


def test_middleware_inside_cannot_hide_a_sold_view_by_changing_the_path() -> None:
    """A request is looked up by what the server gave, which applications change in place."""

    def answer(environ: Any, start_response: Any) -> Any:
        environ["PATH_INFO"] = "/elsewhere"
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [CONTENT]

    app = Flask("seller")
    app.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: CONTENT))
    app.wsgi_app = answer  # type: ignore[method-assign]
    seller = Seller(app)
    app.testing = True
    with pytest.raises(ConfigurationError, match=ANSWERED):
        seller.ask("/sold")


def test_methods_that_strangers_make_up_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_placement, "_MAX_KEPT", 20)
    app, extension = Flask(__name__), Faregate()
    app.url_map.add(Rule("/any", endpoint="any"))  # without methods: it takes every one
    app.view_functions["any"] = extension.paid("report")(lambda: "paid content")
    extension.init_app(app, Paywall(base_url="http://127.0.0.1:9", api_key=TEST_KEY, environ={}))
    client = app.test_client()
    statuses = {client.open("/any", method=f"M{number}").status_code for number in range(50)}
    assert 200 not in statuses
    assert len(app.extensions[NAME].placements) == 20
