"""Every place at which a price can be put on a view of Django: it is sold, or refused with a sentence."""

import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.contrib.auth.decorators import login_required, permission_required  # noqa: E402
from django.contrib.auth.mixins import LoginRequiredMixin  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connections, transaction  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from django.views.decorators.cache import cache_page, never_cache  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from django.views.decorators.gzip import gzip_page  # noqa: E402
from django.views.decorators.http import require_GET  # noqa: E402
from django.views.decorators.vary import vary_on_cookie  # noqa: E402
from django.views.static import serve  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from faregate.django import paid, paid_include  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from tests.adapters.decorators import with_wraps, without_wraps  # noqa: E402
from tests.adapters.django_placement import (  # noqa: E402
    ANSWERED,
    CONTENT,
    LOGIN,
    SOLD,
    Decorator,
    Site,
    classy,
    fresh,
    is_refused,
    is_sold,
    run_command,
    site,
    view,
)
from tests.adapters.django_views import HIDDEN, PAYWALL, read_statuses  # noqa: E402
from tests.support.products import take_part  # noqa: E402

pytestmark = pytest.mark.usefixtures("clean_site")

# Functions


def remembering(view: Any) -> Any:
    """A cache of a seller's own, which knows no marks."""
    remembered: dict[str, Any] = {}

    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.path not in remembered:
            remembered[request.path] = view(request, *args, **kwargs)
        return remembered[request.path]

    return inner


PRICE = "price"
DJANGOS: dict[str, Decorator] = {
    "cache": cache_page(60),
    "csrf": csrf_exempt,
    "GET": require_GET,
    "gzip": gzip_page,
    "login": login_required,
    "never cache": never_cache,
    "vary": vary_on_cookie,
}
OTHERS: dict[str, Decorator] = {
    **DJANGOS,
    "atomic": transaction.atomic,
    "no wraps": without_wraps,
    "own cache": remembering,
    "wraps": with_wraps,
}


def expected(order: tuple[str, ...]) -> str:
    """What must become of a view that is decorated so, the outermost first."""
    above, below = order[: order.index(PRICE)], order[order.index(PRICE) :]
    if "login" in below:
        return LOGIN
    return ANSWERED if "own cache" in above else "sold"


def every_order(others: dict[str, Decorator]) -> Iterator[tuple[str, ...]]:
    for number in (0, 1, 2):
        for chosen in itertools.combinations(others, number):
            yield from itertools.permutations((PRICE, *chosen))


CELLS = [
    *((order, False) for order in every_order(OTHERS)),
    *((order, True) for order in every_order(DJANGOS)),
]


@pytest.mark.parametrize(
    ("order", "awaiting"),
    take_part(CELLS, lambda order, _: len(order) < 3),
    ids=["-".join((*order, *["async"][: int(one)])) for order, one in CELLS],
)
def test_every_order_of_decorators_is_sold_or_refused(
    order: tuple[str, ...], awaiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    known = {**OTHERS, PRICE: SOLD}

    def decorated() -> Any:
        return functools.reduce(lambda made, name: known[name](made), reversed(order), fresh(awaiting))

    if expected(order) == LOGIN:
        with pytest.raises(ConfigurationError, match=LOGIN):
            decorated()
        return
    with site(path("sold", decorated()), awaiting=awaiting) as here:
        if expected(order) == "sold":
            assert is_sold(here)
            assert set(read_statuses()) == {"succeeded"}
            return
        answers = [here.buy(X_User="member") for _ in range(3)]
        assert [one.status_code for one in answers[1:]] == [500, 500]
        assert CONTENT not in answers[1].content + answers[2].content
        assert ANSWERED in caplog.text


# Class-based views


METHODS = {
    "dispatch": True,
    "get": True,
    "setup": False,
    "http_method_not_allowed": False,
    "_allowed_methods": False,
}


@pytest.mark.parametrize("name", METHODS)
def test_a_price_on_each_method_of_a_class(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", method_decorator(SOLD, name=name)(classy()).as_view())) as here:
        if METHODS[name]:
            assert is_sold(here)
        else:
            assert is_refused(here, "put it on dispatch, or on get", caplog.text or refusal(here, caplog))


def refusal(here: Site, caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of the first request."""
    here.ask()
    return caplog.text


def test_a_class_whose_attributes_are_made_late_is_left_alone() -> None:
    class Late:
        def __get__(self, _instance: Any, _owner: Any) -> Any:
            raise ValueError("not now")

    with site(path("free", classy(late=Late()).as_view()), path("sold", SOLD(fresh()))) as here:
        assert here.ask("/free").content == CONTENT
        assert is_sold(here)


@pytest.mark.parametrize("name", ["get", "dispatch"])
@pytest.mark.parametrize("other", ["cache", "csrf", "GET", "gzip", "never cache", "vary", "atomic"])
@pytest.mark.parametrize("is_above", [True, False])
def test_a_price_among_the_decorators_of_a_method(name: str, other: str, is_above: bool) -> None:
    decorators = [OTHERS[other], SOLD] if is_above else [SOLD, OTHERS[other]]
    one_by_one: Any = classy()
    for decorator in reversed(decorators):
        one_by_one = method_decorator(decorator, name=name)(one_by_one)
    listed = method_decorator(decorators, name=name)(classy())
    around = functools.reduce(lambda made, one: one(made), reversed(decorators), classy().as_view())
    routes = [path("one", one_by_one.as_view()), path("listed", listed.as_view()), path("around", around)]
    with site(*routes) as here:
        assert is_sold(here, "/one")
        assert is_sold(here, "/listed")
        assert is_sold(here, "/around")


class Priced(View):
    @method_decorator(SOLD)
    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(*args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        return view(request)


def logins_below() -> dict[str, Callable[[], Any]]:
    dispatch = functools.partial(method_decorator, name="dispatch")
    get = functools.partial(method_decorator, name="get")
    mixed: Any = type("Mixed", (LoginRequiredMixin, classy()), {})
    behind: Any = type("Behind", (Priced, LoginRequiredMixin), {})
    return {
        "list": lambda: dispatch([SOLD, login_required])(classy()).as_view(),
        "one by one": lambda: dispatch(SOLD)(dispatch(login_required)(classy())).as_view(),
        "on a method": lambda: get([SOLD, login_required])(classy()).as_view(),
        "the price on the class, the login on a method": (
            lambda: dispatch(SOLD)(get(login_required)(classy())).as_view()
        ),
        "a mixin": lambda: dispatch(SOLD)(mixed).as_view(),
        "a mixin behind the price": behind.as_view,
        "around a class with a mixin": lambda: SOLD(mixed.as_view()),
        "permission": lambda: dispatch([SOLD, permission_required("x")])(classy()).as_view(),
    }


@pytest.mark.parametrize("kind", logins_below())
def test_a_login_below_the_price_of_a_class_is_refused(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", logins_below()[kind]())) as here:
        assert here.ask().status_code == 500
        assert is_refused(here, LOGIN, caplog.text)


def logins_above() -> dict[str, Any]:
    dispatch = functools.partial(method_decorator, name="dispatch")
    get = functools.partial(method_decorator, name="get")
    return {
        "list": dispatch([login_required, SOLD])(classy()),
        "one by one": dispatch(login_required)(dispatch(SOLD)(classy())),
        "on a method": get([login_required, SOLD])(classy()),
        "the login on the class": dispatch(login_required)(get(SOLD)(classy())),
        "a mixin": type("Mixed", (LoginRequiredMixin, get(SOLD)(classy())), {}),
        "a mixin before the price": type("Before", (LoginRequiredMixin, Priced), {}),
    }


@pytest.mark.parametrize("kind", logins_above())
def test_a_login_above_the_price_of_a_class_comes_first(kind: str) -> None:
    with site(path("sold", logins_above()[kind].as_view())) as here:
        assert here.ask().status_code == 302
        assert is_sold(here)
        assert [one for one in checks.run_checks() if str(one.id).startswith("faregate")] == []


# What is written by mistake


def test_without_parentheses_it_fails_the_import() -> None:
    for mistaken in (lambda: paid(fresh()), lambda: method_decorator(paid, name="get")(classy())):
        with pytest.raises(ConfigurationError, match="with parentheses"):
            mistaken()


@pytest.mark.parametrize(
    ("mistaken", "sentence"),
    [
        (lambda: SOLD(include([path("x", fresh())])), "paid_include"),  # type: ignore[type-var]
        (lambda: SOLD(None), "decorates a view"),  # type: ignore[type-var]
        (lambda: SOLD(classy()), "method_decorator"),
        (lambda: SOLD(classy().as_view), "Call as_view"),
        (lambda: paid_include("daily_report", fresh()), "For one view, use paid"),
        (lambda: paid_include([path("x", fresh())], "daily_report"), "paid_include"),  # type: ignore[call-overload]
        (lambda: paid_include("daily_report", [path("x", login_required(fresh()))]), LOGIN),
    ],
)
def test_what_cannot_be_sold_fails_the_import(mistaken: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        mistaken()


@pytest.mark.parametrize("decorate", [lambda made: made, with_wraps, without_wraps, cache_page(60)])
def test_a_view_that_is_sold_is_given_away_on_no_other_route(
    decorate: Decorator, caplog: pytest.LogCaptureFixture
) -> None:
    function = fresh()
    for sold in (
        path("a", SOLD(with_wraps(function))),
        path("a/", paid_include("daily_report", [path("", function)])),
    ):
        with site(sold, path("sold", decorate(function))) as here:
            here.ask()
            assert is_refused(here, "is sold on one route and free on another", caplog.text)


@pytest.mark.parametrize("rule", ["OFFERS", "REFUSE"])
def test_a_view_that_is_sold_on_one_route_may_be_sold_or_refused_by_the_path_of_another(rule: str) -> None:
    function = fresh()
    prefixes = {"/files": "daily_report"} if rule == "OFFERS" else ["/files"]
    routes = (path("sold", SOLD(function)), path("files/<str:name>", function))
    with site(*routes, FAREGATE={rule: prefixes}) as here:
        assert is_sold(here)
        if rule == "OFFERS":
            assert is_sold(here, "/files/x")
        else:
            assert here.ask("/files/x").status_code == 403
        assert run_command("faregate_routes")[0]


def test_a_view_that_is_sold_by_one_path_of_a_route_is_given_away_by_no_other_path(
    caplog: pytest.LogCaptureFixture,
) -> None:
    function = fresh()
    routes = (path("sold", SOLD(function)), path("<str:folder>/x", function))
    with site(*routes, FAREGATE={"OFFERS": {"/files": "daily_report"}}) as here:
        assert is_sold(here, "/files/x")
        assert CONTENT not in here.ask("/free/x").content
        assert "is sold on one route and free on another" in caplog.text
        assert not run_command("faregate_routes")[0]


@pytest.mark.parametrize("kind", [View, APIView])
def test_a_class_that_is_sold_is_given_away_on_no_other_route(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Report(kind):  # type: ignore[misc]
        def get(self, _request: Any) -> HttpResponse:
            return HttpResponse(CONTENT)

    with site(path("a", SOLD(Report.as_view())), path("sold", Report.as_view())) as here:
        assert is_sold(here, "/a")
        here.ask()
        assert is_refused(here, "is sold on one route and free on another", caplog.text)


def test_one_class_may_be_sold_with_some_values_and_free_with_others() -> None:
    class Report(View):
        text = ""

        def get(self, _request: Any) -> HttpResponse:
            return HttpResponse(self.text)

    @method_decorator(SOLD, name="dispatch")
    class Sold(Report):
        text = "sold"

    routes = [
        path("a", SOLD(Report.as_view(text="sold"))),
        path("b", Report.as_view(text="free")),
        path("c", Report.as_view()),
        path("d", SOLD(Sold.as_view())),
        path("e", Sold.as_view()),
    ]
    with site(*routes) as here:
        assert [here.ask(place).status_code for place in ("/a", "/d", "/e")] == [402, 402, 402]
        assert [here.ask(place).content for place in ("/b", "/c")] == [b"free", b""]


def test_one_function_may_serve_two_folders_and_sell_one(tmp_path: Path) -> None:
    for name in ("sold", "free"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(CONTENT)
    routes = [path(f"{name}/<path:path>", SOLD(serve) if name == "sold" else serve,
                   {"document_root": str(tmp_path / name)}) for name in ("sold", "free")]  # fmt: skip
    with site(*routes) as here:
        assert is_sold(here, "/sold/file")
        assert b"".join(here.ask("/free/file").streaming_content) == CONTENT


def test_the_middleware_twice_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=[HIDDEN, HIDDEN]) as here:
        answer = here.ask()
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert "MIDDLEWARE twice" in caplog.text
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=[PAYWALL, PAYWALL]):
        assert "twice" in run_command("faregate_check")[1]


@pytest.mark.parametrize(
    ("middleware", "sentence"),
    [
        ([], "not in MIDDLEWARE"),
        ([PAYWALL, "django.middleware.http.ConditionalGetMiddleware"], "comes after the paywall"),
        ([PAYWALL, "django.contrib.sessions.middleware.SessionMiddleware"], "comes after the paywall"),
        ([PAYWALL, PAYWALL], "twice"),
    ],
)
def test_a_paywall_in_the_wrong_place_is_an_error(middleware: list[str], sentence: str) -> None:
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=middleware):
        assert sentence in str(checks.run_checks())
        for command in ("faregate_routes", "faregate_check"):
            assert run_command(command)[0] is False
            assert sentence in run_command(command)[1]
        for load in (get_wsgi_application, get_asgi_application):
            if middleware:
                with pytest.raises(ConfigurationError, match=sentence):
                    load()
            else:
                load()


# Transactions


def test_what_cannot_be_sold_in_a_transaction_is_named_before_a_payer_finds_out() -> None:
    routes = [
        path("outermost", SOLD(fresh())),
        path("deeper", login_required(SOLD(fresh()))),
        path("outside", transaction.non_atomic_requests(login_required(SOLD(fresh())))),
        path("free", fresh()),
        path("around", transaction.atomic(SOLD(fresh()))),
    ]
    journal = {"JOURNAL": "django:"}

    def named() -> list[str]:
        errors = [one.msg for one in checks.run_checks() if one.id == "faregate.E008"]
        assert all(one in run_command("faregate_check")[1] for one in errors)
        return [row.path for row in list_routes().routes if row.access == "refused"]

    connections.settings["default"]["ATOMIC_REQUESTS"] = True
    try:
        with site(*routes, FAREGATE=journal):
            assert named() == ["/deeper", "/around"]
            assert "non_atomic_requests" in run_command("faregate_check")[1]
        with site(*routes, FAREGATE={"JOURNAL": "memory:"}):
            assert named() == []
    finally:
        connections.settings["default"]["ATOMIC_REQUESTS"] = False
    with site(*routes, FAREGATE=journal):
        assert named() == ["/around"]
