"""What answers in the place of a view that is sold, or in front of the paywall."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.conf import settings  # noqa: E402
from django.conf.urls.i18n import i18n_patterns  # noqa: E402
from django.contrib.auth.decorators import login_required  # noqa: E402
from django.core import checks  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import FileResponse, HttpRequest, HttpResponse  # noqa: E402
from django.urls import include, path, re_path  # noqa: E402
from django.utils import translation  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.utils.functional import lazy  # noqa: E402
from django.views import View  # noqa: E402
from django.views.decorators.http import etag  # noqa: E402

import faregate.asgi  # noqa: E402
from faregate.django import PaywallMiddleware, paid  # noqa: E402
from faregate.django.conf import get_config  # noqa: E402
from faregate.django.routes import list_routes  # noqa: E402
from faregate.errors import ConfigurationError  # noqa: E402
from tests.adapters.asgi import a_paywall, calling  # noqa: E402
from tests.adapters.django_placement import (  # noqa: E402
    ANSWERED,
    CONTENT,
    RUNS,
    SOLD,
    USERS,
    classy,
    fresh,
    is_sold,
    run_command,
    site,
    view,
)
from tests.adapters.django_views import HIDDEN, PAYWALL, ask_wsgi, project  # noqa: E402
from tests.adapters.wsgi_app import Seller  # noqa: E402

pytestmark = pytest.mark.usefixtures("clean_site")

FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
CONDITIONAL = "django.middleware.http.ConditionalGetMiddleware"


# What answers in the view's place


def test_a_validator_above_the_price_answers_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with site(path("sold", etag(lambda *_: '"1"')(SOLD(fresh())))) as here:
        assert here.ask(If_None_Match='"1"').status_code == 500
        assert ANSWERED in caplog.text
        assert is_sold(here)


@pytest.mark.parametrize("sells", [True, False])
def test_an_async_view_under_gevent_fails_the_start(sells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def awaiting(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(CONTENT)

    routes = [path("plain", SOLD(fresh())), path("other", SOLD(awaiting) if sells else awaiting)]
    with project(*routes):
        before = PaywallMiddleware(lambda _request: HttpResponse())
        for patched in (False, True):
            gevent = SimpleNamespace(is_module_patched=lambda name, on=patched: name == "threading" and on)
            monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
            if not patched:
                PaywallMiddleware(lambda _request: HttpResponse())
                continue
            for call in (
                lambda: PaywallMiddleware(lambda _request: HttpResponse()),
                lambda: before(HttpRequest()),
            ):
                with pytest.raises(ConfigurationError, match="is async, and gevent runs this process"):
                    call()


@pytest.mark.parametrize("prefix", ["/reports", "/shop/reports"])
@pytest.mark.parametrize("place", ["/reports/x", "/shop/reports/x"])
def test_a_forced_root_passes_no_prefix_by_around_a_project(prefix: str, place: str) -> None:
    """`faregate.asgi` and `faregate.wsgi` see the root path of the server, and Django puts its own there."""
    offers = {prefix: "daily_report"}
    routes = [path(one, lambda _request: HttpResponse(CONTENT)) for one in ("reports/x", "shop/reports/x")]
    with project(*routes, MIDDLEWARE=[], FORCE_SCRIPT_NAME="/shop"):
        awaiting = faregate.asgi.PaywallMiddleware(get_asgi_application(), a_paywall(), offers=offers)
        with calling(awaiting) as client:
            assert client.get(place).status_code == 402
        assert Seller(get_wsgi_application(), offers=offers).ask(place).status_code == 402


def test_what_is_withheld_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    opened = list[Any]()

    def above(view: Any) -> Any:
        def inner(_request: HttpRequest) -> FileResponse:
            opened.append((tmp_path / "file").open("rb"))
            return FileResponse(opened[-1])

        return functools.wraps(view)(inner)

    with site(path("sold", above(SOLD(fresh())))) as here:
        assert here.ask().status_code == 500
    assert [one.closed for one in opened] == [True]


class Answering:
    """Middleware that answers by itself when a header asks for it."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        status = request.headers.get("X-Answer")
        return HttpResponse(CONTENT, status=int(status)) if status else self.get_response(request)


def test_middleware_below_the_paywall_may_refuse_and_not_give(caplog: pytest.LogCaptureFixture) -> None:
    routes = [path("sold", SOLD(fresh())), path("free", fresh())]
    with site(*routes, MIDDLEWARE=[HIDDEN, f"{__name__}.Answering"]) as here:
        statuses = [here.ask(X_Answer=status).status_code for status in ("200", "206", "302", "304", "402")]
        assert statuses == [500] * 5
        assert ANSWERED in caplog.text
        assert [here.ask(X_Answer=status).status_code for status in ("403", "404")] == [403, 404]
        assert here.ask("/free", X_Answer="200").content == CONTENT
        assert here.ask("/missing", X_Answer="200").content == CONTENT
        assert is_sold(here)


def test_middleware_below_the_paywall_gives_nothing_for_other_methods() -> None:
    """It may be a cache that ignores the method, of a class that sells one of its methods."""

    class Sold(View):
        @method_decorator(paid("daily_report"))
        def get(self, request: HttpRequest) -> HttpResponse:
            return view(request)

        def put(self, _request: HttpRequest) -> HttpResponse:
            return HttpResponse("free")

    with site(path("sold", Sold.as_view()), MIDDLEWARE=[HIDDEN, f"{__name__}.Answering"]) as here:
        answers = [here.ask("/sold", method, X_Answer="200") for method in ("GET", "HEAD", "POST", "OPTIONS")]
        assert [answer.status_code for answer in answers] == [500, 500, 500, 204]
        assert not any(CONTENT in answer.content for answer in answers)
        assert here.ask("/sold", "PUT").content == b"free"
        assert here.ask("/sold", "POST").status_code == 405
        assert here.ask("/sold", "OPTIONS").headers["Allow"] == "GET, PUT, HEAD, OPTIONS"
        assert is_sold(here)


@pytest.mark.parametrize("middleware", [
    [UPDATE, FETCH, PAYWALL],
    [UPDATE, HIDDEN, FETCH],
    [HIDDEN, UPDATE, FETCH],
    [CONDITIONAL, PAYWALL],
    [HIDDEN, CONDITIONAL],
    ["django.middleware.cache.CacheMiddleware", PAYWALL],
    [HIDDEN, "django.middleware.cache.CacheMiddleware"],
])  # fmt: skip
@pytest.mark.parametrize("awaiting", [False, True])
def test_a_cache_for_the_whole_site_gives_nothing_away(middleware: list[str], awaiting: bool) -> None:
    routes = [path("sold", SOLD(fresh(awaiting))), path("ground/x", fresh(awaiting))]
    path_rules = {"OFFERS": {"/ground": "daily_report"}}
    with site(*routes, awaiting=awaiting, MIDDLEWARE=[USERS, *middleware], FAREGATE=path_rules) as here:
        assert is_sold(here)
        assert is_sold(here, "/ground/x")


def test_what_was_free_and_is_cached_is_withheld_when_it_is_sold(caplog: pytest.LogCaptureFixture) -> None:
    inside = [USERS, HIDDEN, UPDATE, FETCH]
    with site(path("sold", fresh()), MIDDLEWARE=inside) as here:
        assert here.ask().content == CONTENT
    with site(path("sold", SOLD(fresh())), MIDDLEWARE=inside) as here:
        answer = here.ask()
        assert (answer.status_code, CONTENT in answer.content) == (500, False)
        assert ANSWERED in caplog.text


@pytest.mark.parametrize(
    ("said", "sold", "free"),
    [
        (None, "private, no-store", None),
        ("public, max-age=60", "private, no-store", "public, max-age=60"),
        ("private, no-store, no-transform",) * 3,
    ],
)
def test_what_a_view_says_about_caching_is_heard_where_it_may_be(
    said: str | None, sold: str, free: str | None
) -> None:
    def function(request: HttpRequest) -> HttpResponse:
        return HttpResponse(CONTENT, headers={} if said is None else {"Cache-Control": said})

    routes = [
        path("sold", SOLD(function)),
        path("free", paid("free_notes")(lambda request: function(request))),
    ]
    with site(*routes) as here:
        assert here.buy().headers.get("Cache-Control") == sold
        assert here.ask("/free").headers.get("Cache-Control") == free


# What answers before the paywall


WHITENOISE = "whitenoise.middleware.WhiteNoiseMiddleware"


def find_errors(prefix: str, middleware: list[str], **more: Any) -> list[str]:
    path_rules = {
        "REFUSE" if prefix == "/closed" else "OFFERS": [prefix]
        if prefix == "/closed"
        else {prefix: "daily_report"}
    }
    routes = [path("reports/x", fresh()), path("static/sold/x", fresh()), path("closed/x", fresh())]
    with project(*routes, MIDDLEWARE=middleware, FAREGATE=path_rules, **more):
        found = [str(one.id) for one in checks.run_checks() if str(one.id).startswith("faregate")]
        assert ("answers at" in run_command("faregate_routes")[1]) == ("faregate.E009" in found)
    return found


def test_what_answers_before_the_paywall_below_a_prefix_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "y").write_bytes(CONTENT)
    whitenoise: dict[str, Any] = {"STATIC_URL": "/static/", "INSTALLED_APPS": settings.INSTALLED_APPS}
    outside, inside = [WHITENOISE, PAYWALL], [PAYWALL, WHITENOISE]
    assert find_errors("/static/sold", outside, **whitenoise) == ["faregate.E009"]
    assert find_errors("/", outside, **whitenoise) == ["faregate.E009"]
    assert find_errors("/reports", outside, **whitenoise) == []
    assert find_errors("/reports", outside, **whitenoise, WHITENOISE_ROOT=str(tmp_path)) == ["faregate.E009"]
    assert find_errors("/closed", outside, **whitenoise, WHITENOISE_ROOT=str(tmp_path)) == []
    assert find_errors("/static/sold", inside, **whitenoise) == ["faregate.E007"]
    assert find_errors("/reports", [f"{__name__}.OwnNoise", PAYWALL], **whitenoise) == []
    assert find_errors("/static/sold", [f"{__name__}.OwnNoise", PAYWALL], **whitenoise) == ["faregate.E009"]


PROJECT = """
import django, sys
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.sites", "django.contrib.flatpages",
                    "faregate.django"],
    MIDDLEWARE=["django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
                "faregate.django.PaywallMiddleware"],
    FAREGATE={"BASE_URL": "emulator:", "OFFERS": {sys.argv[1]: "daily_report"} if sys.argv[1:] else {}},
    DATABASES={}, ROOT_URLCONF=(), SITE_ID=1,
)
django.setup()
from django.core import checks

print(*(one.id for one in checks.run_checks() if one.id.startswith("faregate")))
"""


@pytest.mark.parametrize(("prefix", "errors"), [(["/reports"], "faregate.E009"), ([], "")])
def test_flatpages_before_the_paywall_are_an_error_where_a_prefix_is_sold(
    prefix: list[str], errors: str
) -> None:
    """They answer for a 404, and the answer of a paid request may be one. In a process of its own: their
    models would stay.
    """
    command = [sys.executable, "-c", PROJECT, *prefix]
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.strip() == errors


def own_noise() -> Any:
    from whitenoise.middleware import WhiteNoiseMiddleware

    return type("OwnNoise", (WhiteNoiseMiddleware,), {})


OwnNoise = own_noise()


def test_a_file_of_whitenoise_at_the_address_of_a_sold_view_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sold").mkdir()
    (tmp_path / "sold" / "today").write_bytes(CONTENT)
    (tmp_path / "robots.txt").write_text("")
    more: dict[str, Any] = {"STATIC_URL": "/static/", "WHITENOISE_ROOT": str(tmp_path)}
    for route, ids in (
        (path("sold/today", SOLD(fresh())), ["faregate.E009"]),
        (path("x", SOLD(fresh())), []),
    ):
        with site(route, MIDDLEWARE=[WHITENOISE, PAYWALL], **more) as here:
            found = [one for one in checks.run_checks() if str(one.id).startswith("faregate")]
            assert [one.id for one in found] == ids
            if ids:
                with pytest.raises(ConfigurationError, match="answers at /sold/today by itself"):
                    here.ask("/sold/today")
            else:
                assert b"".join(here.ask("/sold/today").streaming_content) == CONTENT


def write_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(CONTENT)


class Wraps:
    """A seller's own middleware that makes the paywall: its place in MIDDLEWARE is not seen."""

    def __new__(cls, get_response: Any) -> Any:
        return PaywallMiddleware(get_response)


STARTS: dict[str, tuple[dict[str, Any], str]] = {
    "below-a-prefix": ({"root": ["reports/x"]}, "/reports/x"),
    "below-a-prefix-in-other-letters": ({"root": ["Reports/x"]}, "/Reports/x"),
    "a-file-that-is-a-prefix": ({"root": ["reports"]}, "/reports"),
    "below-a-refused-prefix": ({"root": ["drafts/x"]}, "/drafts/x"),
    "the-index-of-a-folder-at-a-view": (
        {"root": ["sold/index.html"], "WHITENOISE_INDEX_FILE": True},
        "/sold/",
    ),
    "a-static-file-at-a-view": ({"static": ["sold"]}, "/static/sold"),
    "below-a-script-name": (
        {"static": [], "FORCE_SCRIPT_NAME": "/app", "STATIC_URL": "/app/reports/"},
        "/reports",
    ),
    "more-than-three": ({"root": [f"reports/{name}" for name in "abcde"]}, " and 2 others by itself"),
    "made-by-a-class-of-the-seller": (
        {"root": ["reports/x"], "MIDDLEWARE": [WHITENOISE, f"{__name__}.Wraps"]},
        "/reports/x",
    ),
    "elsewhere": ({"root": ["robots.txt", "sold/y"], "static": ["css/site.css"]}, ""),
    "below-the-paywall": ({"root": ["reports/x"], "MIDDLEWARE": [PAYWALL, WHITENOISE]}, "after the paywall"),
}


@pytest.mark.parametrize("refreshes", [False, True])
@pytest.mark.parametrize("start", STARTS)
def test_a_project_whose_whitenoise_gives_away_does_not_start(
    start: str, refreshes: bool, tmp_path: Path
) -> None:
    more, message = STARTS[start]
    more = {"MIDDLEWARE": [WHITENOISE, PAYWALL], "STATIC_URL": "/static/"} | more
    write_files(tmp_path / "root", *more.pop("root", ()))
    write_files(tmp_path / "static", *more.pop("static", ()))
    (tmp_path / "root").mkdir(exist_ok=True)
    (tmp_path / "static").mkdir(exist_ok=True)
    more |= {"WHITENOISE_ROOT": str(tmp_path / "root"), "STATIC_ROOT": str(tmp_path / "static")}
    path_rules = {"OFFERS": {"/reports": "daily_report"}, "REFUSE": ["/drafts"]}
    routes = [path("sold/", SOLD(fresh())), path("static/sold", SOLD(fresh())), path("free", fresh())]
    with project(*routes, FAREGATE=path_rules, WHITENOISE_AUTOREFRESH=refreshes, **more):
        for load in (get_wsgi_application, get_asgi_application):
            if message:
                with pytest.raises(ConfigurationError, match=re.escape(message)):
                    load()
            else:
                load()


SERVED = """
import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

settings.configure(
    INSTALLED_APPS=["faregate.django"], DATABASES={}, ROOT_URLCONF=__name__,
    WHITENOISE_ROOT="root", STATIC_URL="static/",
    MIDDLEWARE=["whitenoise.middleware.WhiteNoiseMiddleware", "faregate.django.PaywallMiddleware"],
    FAREGATE={"BASE_URL": "emulator:", "OFFERS": {"/reports": "daily_report"}},
)
urlpatterns = [path("reports/x", lambda request: HttpResponse())]

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application


def load_wsgi():
    return get_wsgi_application()


def load_asgi():
    return get_asgi_application()
"""
SERVERS = {
    "gunicorn": ["gunicorn", "--bind", "127.0.0.1:0", "shop:load_wsgi()"],
    "uvicorn": ["uvicorn", "--port", "0", "--factory", "shop:load_asgi"],
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_does_not_start_with_a_file_that_is_sold(server: str, tmp_path: Path) -> None:
    write_files(tmp_path / "root", "reports/x")
    (tmp_path / "shop.py").write_text(SERVED)
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-m", *SERVERS[server]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode != 0
    assert "answers at /reports/x by itself, for free" in done.stderr


# Refused prefixes


@pytest.mark.parametrize("awaiting", [False, True])
def test_what_is_refused_does_not_run(awaiting: bool) -> None:
    class Mixed(View):
        @method_decorator(SOLD)
        def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse(CONTENT)

        def post(self, request: HttpRequest) -> HttpResponse:
            return view(request)

    routes = [
        path("closed/plain", fresh(awaiting)),
        path("closed/class", classy().as_view()),
        path("closed/mixed", Mixed.as_view()),
        path("closed/sold", SOLD(fresh(awaiting))),
        path("closed/login", login_required(SOLD(fresh(awaiting)))),
    ]
    with site(*routes, awaiting=awaiting, FAREGATE={"REFUSE": ["/closed"]}) as here:
        for place in ("/closed/plain", "/closed/class", "/Closed//plain", "/closed/missing"):
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                answer = here.ask(place, method)
                assert (answer.status_code, CONTENT in answer.content) == (403, False), (place, method)
        assert here.ask("/closed/mixed", "POST").status_code == 403
        assert RUNS == []
        assert here.buy("/closed/mixed").content == CONTENT
        assert is_sold(here, "/closed/sold")
        assert is_sold(here, "/closed/login")


# Targets that are no path


@pytest.mark.parametrize("target", ["http://x/sold", "x:/sold", "ground/x"])
def test_a_target_that_is_not_a_path_is_served_to_nobody(target: str) -> None:
    routes = [path("sold", SOLD(fresh())), path("ground/x", fresh()), path("closed/x", fresh())]
    path_rules = {"OFFERS": {"/ground": "daily_report"}, "REFUSE": ["/closed"]}
    for where in (path_rules, {}):
        with site(*routes, FAREGATE=where):
            status, _, body = ask_wsgi(target)
            assert (CONTENT in body, RUNS) == (False, [])
            assert status[:3] == ("400" if where else "404")


# Expressions that cannot be reversed


@pytest.mark.parametrize("expression", [r"(?i)^free$", r"^free(?#note)$", r"^(?>free)$", r"^(?i:free)$"])
@pytest.mark.parametrize("awaiting", [False, True])
def test_an_expression_of_which_django_makes_no_path_stops_nothing(expression: str, awaiting: bool) -> None:
    included = re_path(expression.replace("free", "in/").rstrip("$"), include([path("x", fresh(awaiting))]))
    routes = [re_path(expression, fresh(awaiting)), included, path("sold", SOLD(fresh(awaiting)))]
    with site(*routes, awaiting=awaiting, FAREGATE={"OFFERS": {"/ground": "daily_report"}}) as here:
        assert is_sold(here)
        assert here.ask("/free").content == here.ask("/in/x").content == CONTENT
        assert not [one for one in checks.run_checks() if str(one.id) == "faregate.E008"]
        assert {row.access for row in list_routes().routes} == {"free", "paid"}
    with site(re_path(expression, SOLD(fresh(awaiting))), awaiting=awaiting) as here:
        assert is_sold(here, "/free")


# Patterns that match more than a prefix


OPEN: dict[str, Callable[[], list[Any]]] = {
    "text": lambda: [re_path("reports/", fresh())],
    "parameter": lambda: [re_path(r"reports/(?P<day>.*)", lambda _, day: HttpResponse(day))],
    "around": lambda: [re_path("reports/", include([path("x", fresh())]))],
    "inside": lambda: [path("all/", include([re_path("reports/x", fresh())]))],
    "without an end": lambda: [re_path("^reports", fresh())],
    "an end that may be missing": lambda: [re_path("^reports/?", fresh())],
    "a longer end": lambda: [re_path("^reports.*$", fresh())],
    "a longer segment": lambda: [re_path("^reports[^/]*/x$", fresh())],
    "without an end, around": lambda: [re_path("^reports", include([re_path(".*/x", fresh())]))],
    "letters before": lambda: [re_path("^[a-z]*/?reports/", fresh())],
    "any case": lambda: [re_path("(?i)reports/", fresh())],
}
OFFERS = {"/reports": "daily_report", "/all/reports": "daily_report", "/en": "daily_report"}


@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("by", ["OFFERS", "REFUSE"])
def test_a_pattern_that_also_matches_outside_of_a_prefix_is_an_error(kind: str, by: str) -> None:
    rules = {by: OFFERS if by == "OFFERS" else list(OFFERS)}
    with (
        site(*OPEN[kind](), FAREGATE=rules) as here,
        pytest.raises(ConfigurationError, match=re.escape("Begin the regular expression with ^")),
    ):
        here.ask("/x/reports/")
    assert not RUNS


def translate(language_to_text: dict[str, str], text: str) -> Any:
    return lazy(lambda: language_to_text.get(translation.get_language() or "", text), str)()


@pytest.mark.parametrize("by", ["OFFERS", "REFUSE"])
@pytest.mark.parametrize("around", [lambda routes: routes, lambda routes: i18n_patterns(*routes)])
def test_a_pattern_that_a_translation_leads_outside_of_a_prefix_is_an_error(around: Any, by: str) -> None:
    """`path(_("files/"), ...)` is `/dateien/` in German."""
    reports = translate({"de": "berichte/"}, "reports/")
    languages = [("en", "English"), ("de", "Deutsch")]
    prefixes = {"/reports": "daily_report"}
    rules = {by: prefixes if by == "OFFERS" else list(prefixes)}
    with (
        site(
            *around([path(reports, include([path("x/", fresh())]))]), FAREGATE=rules, LANGUAGES=languages
        ) as here,
        pytest.raises(ConfigurationError, match="berichte/x/ in the language 'de'"),
    ):
        here.ask("/reports/x/")
    assert not RUNS
    prefixes["/berichte"] = "daily_report"
    rules = {by: prefixes if by == "OFFERS" else list(prefixes)}
    with site(*around([path(reports, fresh())]), FAREGATE=rules, LANGUAGES=languages) as here:
        assert here.ask("/reports/").status_code in (402, 403, 404)


def test_a_pattern_of_a_request_that_also_matches_outside_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(ChooseUrls, "urls", (re_path("reports/", fresh()),))
    with site(MIDDLEWARE=[f"{__name__}.ChooseUrls", PAYWALL], FAREGATE={"OFFERS": OFFERS}) as here:
        assert here.ask("/x/reports/").status_code == 500
    assert not RUNS


def test_a_pattern_that_matches_a_prefix_among_others_is_well() -> None:
    routes = [
        re_path("^reports/$", fresh()),
        re_path("(?i)^reports/z", fresh()),
        re_path("^all/reports(?:/.*)?$", fresh()),
        re_path("^en/", fresh()),
        re_path(r"reports/x$", fresh()),  # Django asks for all of the path, because of the $
        re_path("reports/y", paid("daily_report")(fresh())),
        path("<slug:language>/", lambda _, language: HttpResponse(CONTENT)),
        path("<path:rest>", lambda _, rest: HttpResponse(CONTENT)),
        re_path("", fresh()),
    ]
    with site(*routes, FAREGATE={"OFFERS": OFFERS}) as here:
        assert here.ask("/reports/").status_code == here.ask("/en/").status_code == 402
        assert here.ask("/de/").content == here.ask("/x/reports/").content == CONTENT


# Paths with a language


LANGUAGES: dict[str, Any] = {"LANGUAGES": [("en", "English"), ("de", "German")], "LANGUAGE_CODE": "en"}


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("awaiting", [False, True])
def test_a_prefix_covers_its_paths_in_every_language(awaiting: bool, default: bool) -> None:
    inside = [path("reports/", fresh(awaiting)), path("free/", fresh(awaiting))]
    routes = i18n_patterns(*inside, prefix_default_language=default)
    outside = ["django.middleware.locale.LocaleMiddleware", PAYWALL]
    places = ["/de/reports/", "/en/reports/" if default else "/reports/"]
    for path_rules, status in (
        ({"OFFERS": {"/reports": "daily_report"}}, 402),
        ({"REFUSE": ["/reports"]}, 403),
    ):
        with site(*routes, awaiting=awaiting, MIDDLEWARE=outside, FAREGATE=path_rules, **LANGUAGES) as here:
            for method in ("GET", "HEAD", "POST"):
                assert [here.ask(place, method).status_code for place in places] == [status] * 2
            assert here.ask("/de/free/").content == CONTENT
            assert {row.path.strip("/").split("/")[-1]: row.access for row in list_routes().routes} == {
                "reports": "paid" if status == 402 else "refused",
                "free": "free",
                "_statuses": "free",
            }
            assert not list_routes().unmatched
            if status == 402:
                assert is_sold(here, "/de/reports/")
    RUNS.clear()


class ChooseUrls:
    """Middleware that has some hosts served by a URLconf of their own, in a language of its own."""

    urls: Any = ()

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        request.urlconf = self.urls
        with translation.override("tlh"):
            return self.get_response(request)


@pytest.mark.parametrize("rules", [{"OFFERS": {"/reports": "daily_report"}}, {"REFUSE": ["/reports"]}])
def test_a_prefix_covers_the_languages_of_a_urlconf_that_a_request_sets(
    rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChooseUrls, "urls", tuple(i18n_patterns(path("reports/", fresh()))))
    with site(MIDDLEWARE=[f"{__name__}.ChooseUrls", PAYWALL], FAREGATE=rules, **LANGUAGES) as here:
        assert here.ask("/tlh/reports/").status_code == (402 if "OFFERS" in rules else 403)
    assert not RUNS


@pytest.mark.parametrize("place", ["/de/reports/", "/xx/reports/", "/deep/reports/"])
def test_a_path_that_has_no_language_is_none_of_the_prefix(place: str) -> None:
    """Two letters are a language only where the URLconf has languages in its paths."""
    routes: list[Any] = [path(place[1:], fresh()), path("reports/", fresh())]
    if "de/" not in place:
        routes += i18n_patterns(path("x/", fresh()))
    with site(*routes, FAREGATE={"OFFERS": {"/reports": "daily_report"}}, **LANGUAGES) as here:
        assert here.ask(place).content == CONTENT
        assert is_sold(here, "/reports/")


def test_the_longest_prefix_names_the_offer_of_a_path_with_a_language() -> None:
    routes = i18n_patterns(path("reports/", fresh()))
    offers = {"/": "daily_report", "/reports": "text_summary", "/de/reports": "token_meter"}
    with site(*routes, FAREGATE={"OFFERS": offers}, **LANGUAGES):
        rules = get_config().path_rules
        sold = {place: rules.match(place).prefix for place in ("/x", "/en/reports/", "/de/reports/", "/en")}
        assert sold == {"/x": "/", "/en/reports/": "/reports", "/de/reports/": "/de/reports", "/en": "/"}
        assert rules.match("/app/en/reports/", "/app").prefix == "/reports"
