"""What a paid Django view leaves beside its response leaves, and is stored, only with a released result."""

import pickle
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests import django_site

django_site.ready()

from asgiref.sync import async_to_sync, sync_to_async  # noqa: E402
from django.contrib import auth, messages  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.sessions.backends.base import SessionBase  # noqa: E402
from django.contrib.sessions.models import Session  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.middleware.csrf import rotate_token  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils import timezone, translation  # noqa: E402

from faregate.django import paid  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from tests.adapters.django_views import HIDDEN, PAYWALL, Site, served  # noqa: E402

CONTENT = "paid-content-4711"
OUTSIDE = [
    f"{__name__}.Outside",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    PAYWALL,
]
UNPAID = ("rejected", "slow", "expires")
"""Test payers whose payment is not proven when the work is done."""
BACKENDS = ("db", "cache", "cached_db", "file", "signed_cookies")

Write = Callable[[Any], Any]
T = TypeVar("T")


class Outside:
    """Middleware that answers with what it finds in the request after the view, as trackers do."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        from asgiref.sync import iscoroutinefunction, markcoroutinefunction

        self.get_response = get_response
        self.awaiting = iscoroutinefunction(get_response)
        if self.awaiting:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        request.basket, request.seen = {"items": ["free"]}, ["free"]
        if self.awaiting:
            return self._acall(request)
        return self._answered(request, self.get_response(request))

    async def _acall(self, request: Any) -> Any:
        return self._answered(request, await self.get_response(request))

    def _answered(self, request: Any, response: Any) -> Any:
        response.headers["X-Basket"] = " ".join([*request.basket["items"], *request.seen])
        response.headers["X-Extra"] = str(getattr(request, "extra", ""))
        response.headers["X-Meta"] = str(request.META.get("EXTRA", ""))
        response.headers["X-User"] = type(vars(request)["user"]).__name__
        response.headers["X-Language"] = translation.get_language()
        response.headers["X-Timezone"] = str(timezone.get_current_timezone())
        response.set_cookie("basket", response.headers["X-Basket"])
        return response


# What a view may do. Each leaves `CONTENT` somewhere.


def put(request: Any) -> None:
    request.session["content"] = CONTENT


def put_inside(request: Any) -> None:
    request.session["known"].append(CONTENT)
    request.session.modified = True


def put_inside_and_save(request: Any) -> None:
    request.session["known"].append(CONTENT)
    request.session.save()


def save(request: Any) -> None:
    request.session["content"] = CONTENT
    request.session.save()


def create(request: Any) -> None:
    request.session.create()
    assert request.session.session_key or not hasattr(request.session, "_cache")
    request.session["content"] = CONTENT
    request.session.save()


def cycle_key(request: Any) -> None:
    request.session["content"] = CONTENT
    request.session.cycle_key()


def flush(request: Any) -> None:
    request.session.flush()
    request.session["content"] = CONTENT
    request.session.save()


def set_expiry(request: Any) -> None:
    request.session["content"] = CONTENT
    request.session.set_expiry(3600)


def replace(request: Any) -> None:
    request.session = type(request.session)()
    request.session["content"] = CONTENT


def login(request: Any) -> None:
    request.session["content"] = CONTENT
    auth.login(request, user())


def logout(request: Any) -> None:
    auth.logout(request)
    request.session["content"] = CONTENT


def message(request: Any) -> None:
    messages.success(request, CONTENT)


async def aput(request: Any) -> None:
    await request.session.aset("content", CONTENT)


async def asave(request: Any) -> None:
    await request.session.aset("content", CONTENT)
    await request.session.asave()


async def acreate(request: Any) -> None:
    await request.session.acreate()
    await request.session.aset("content", CONTENT)
    await request.session.asave()


async def acycle_key(request: Any) -> None:
    await request.session.aset("content", CONTENT)
    await request.session.acycle_key()


async def aflush(request: Any) -> None:
    await request.session.aflush()
    await request.session.aset("content", CONTENT)
    await request.session.asave()


async def alogin(request: Any) -> None:
    await request.session.aset("content", CONTENT)
    await auth.alogin(request, await sync_to_async(user)())


async def alogout(request: Any) -> None:
    await auth.alogout(request)
    await request.session.aset("content", CONTENT)


SESSION_WRITES: tuple[Write, ...] = (
    put,
    put_inside,
    put_inside_and_save,
    save,
    create,
    cycle_key,
    flush,
    set_expiry,
    replace,
    login,
    logout,
    message,
    aput,
    asave,
    acreate,
    acycle_key,
    aflush,
    alogin,
    alogout,
)


def user() -> User:
    return User.objects.get_or_create(username="member")[0]


def cookie(_request: Any, response: HttpResponse) -> None:
    response.set_cookie("content", CONTENT)


def basket(request: Any) -> None:
    request.basket["items"].append(CONTENT)
    request.seen.append(CONTENT)


def other_basket(request: Any) -> None:
    request.basket, request.seen = {"items": [CONTENT]}, [CONTENT]


def attributes(request: Any) -> None:
    request.extra = CONTENT
    request.META["EXTRA"] = CONTENT
    request.user = User(username=CONTENT)


def language(_request: Any) -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")


@dataclass
class Pages:
    """The views of one site; `write` is what the paid one does next."""

    write: Write | None = None
    then: str = ""
    runs: list[str] = field(default_factory=list)

    def routes(self) -> list[Any]:
        views = {"start": start, "me": me}
        return [
            path("plain", paid("daily_report")(self.plain)),
            path("awaiting", paid("daily_report")(self.awaiting)),
            path("free", paid("free_notes")(self.plain)),
            path("open/plain", lambda request: self.plain(request)),
            path("open/awaiting", self._unsold),
            *(path(name, view) for name, view in views.items()),
        ]

    def plain(self, request: HttpRequest) -> HttpResponse:
        call(self.write, request)
        return self._answer(request)

    async def awaiting(self, request: HttpRequest) -> HttpResponse:
        await acall(self.write, request)
        return self._answer(request)

    async def _unsold(self, request: HttpRequest) -> HttpResponse:
        return await self.awaiting(request)

    def _answer(self, request: HttpRequest) -> HttpResponse:
        self.runs.append(request.path)
        if self.then == "raise":
            raise ZeroDivisionError
        response = HttpResponse(CONTENT, status=404 if self.then == "404" else 200)
        response.set_cookie("own", CONTENT)
        return response


def call(write: Write | None, request: Any) -> None:
    done = write and write(request)
    if isinstance(done, Awaitable):
        _wait(done)


@async_to_sync
async def _wait(done: Awaitable[None]) -> None:
    await done


async def acall(write: Write | None, request: Any) -> None:
    if iscoroutinefunction(write):
        await write(request)
    elif write is not None:
        await sync_to_async(write)(request)


def start(request: HttpRequest) -> HttpResponse:
    request.session["known"] = ["free"]
    return HttpResponse("started")


def me(request: HttpRequest) -> JsonResponse:
    session = {name: request.session[name] for name in request.session.keys()}  # noqa: SIM118
    told = [str(one) for one in messages.get_messages(request)]
    return JsonResponse({"session": session, "messages": told, "user": request.user.get_username()})


def stored() -> Iterator[object]:
    """Everything that any session store on the server holds."""
    for row in Session.objects.all():
        yield row.get_decoded()
    raw: dict[str, bytes] = cache._cache  # type: ignore[attr-defined]
    for value in raw.values():
        yield pickle.loads(value)
    from django.conf import settings

    for file in Path(settings.SESSION_FILE_PATH or "").glob("sessionid*"):
        yield SessionBase().decode(file.read_text())
        yield file.name


def forget(site: Site) -> None:
    """A new browser, and empty stores."""
    site.http.cookies.clear()
    Session.objects.all().delete()
    cache.clear()
    from django.conf import settings

    for file in Path(settings.SESSION_FILE_PATH or "").glob("sessionid*"):
        file.unlink()


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture(params=["wsgi", "asgi"])
def interface(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def visit(interface: str, pages: Pages, tmp_path: Path) -> Any:
    def visit(backend: str = "db", **settings: Any) -> Any:
        engine = f"django.contrib.sessions.backends.{backend}"
        settings |= {"SESSION_ENGINE": engine, "SESSION_FILE_PATH": str(tmp_path), "USE_I18N": True}
        settings.setdefault("MIDDLEWARE", OUTSIDE)
        # Each purchase runs: a payer buys one page again while an earlier payment is open.
        settings["FAREGATE"] = {"RESUME_OPEN_PAYMENTS": False, **settings.get("FAREGATE", {})}
        return served(interface, *pages.routes(), **settings)

    return visit


def pay(site: Site, place: str, payer: str) -> httpx.Response:
    unpaid = site.ask(place)
    assert unpaid.status_code == 402, unpaid.text
    return site.ask(place, Wallet.test(payer).pay(unpaid.headers["payment-required"]))


def traces(site: Site, answer: httpx.Response) -> list[str]:
    """Where the content is, outside of the body of this answer; what it is called elsewhere."""
    found = [f"header {name}" for name, value in answer.headers.multi_items() if CONTENT in value]
    found += [f"cookie {one}" for one in answer.headers.get_list("set-cookie")]
    looked = site.ask("/me")
    found += ["what is read later"] if CONTENT in looked.text else []
    found += ["a new session"] if looked.json()["user"] else []
    found += ["a store"] if CONTENT in str(list(stored())) else []
    return found


InTurn = Callable[[tuple[T, ...], str, int], tuple[T, ...]]


@pytest.fixture
def in_turn(pytestconfig: pytest.Config) -> InTurn[Any]:
    """Give all choices for the first of `BACKENDS`; for the others one, for every second write."""

    def choose(choices: tuple[T, ...], backend: str, number: int) -> tuple[T, ...]:
        if backend == BACKENDS[0] or pytestconfig.getoption("--full"):
            return choices
        turn, is_left = divmod(number + BACKENDS.index(backend), 2)
        return () if is_left else (choices[turn % len(choices)],)

    return choose


# Nothing leaves and nothing is stored


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_session_of_an_unpaid_result_leaves_or_is_stored(
    visit: Any, pages: Pages, backend: str, in_turn: InTurn[Any]
) -> None:
    with visit(backend) as site:
        for number, write in enumerate(SESSION_WRITES):
            unpaid = (("/plain", "rejected", 402), ("/awaiting", "slow", 202))
            for place, payer, status in in_turn(unpaid, backend, number):
                forget(site)
                assert site.ask("/start").text == "started"
                before = site.http.cookies.get("sessionid")
                pages.write, runs = write, len(pages.runs)
                answer = pay(site, place, payer)
                case = (write.__name__, payer)
                assert (answer.status_code, len(pages.runs)) == (status, runs + 1), case
                assert CONTENT not in answer.text, case
                assert traces(site, answer) == [], case
                assert site.http.cookies.get("sessionid") == before, case
                assert site.ask("/me").json()["session"] == {"known": ["free"]}, case


@pytest.mark.parametrize("then", ["raise", "404"])
def test_no_session_of_failed_work_leaves_or_is_stored(
    visit: Any, pages: Pages, then: str, pytestconfig: pytest.Config
) -> None:
    with visit("db") as site:
        for number, write in enumerate(SESSION_WRITES):
            turn = (number + (then == "404")) % 2
            places = ("/plain", "/awaiting")
            for place in places if pytestconfig.getoption("--full") else places[turn : turn + 1]:
                forget(site)
                site.ask("/start")
                pages.write, pages.then = write, then
                answer = pay(site, place, "good")
                assert answer.status_code == (500 if then == "raise" else 404)
                assert traces(site, answer) == [], write.__name__
                assert site.ask("/me").json()["session"] == {"known": ["free"]}, write.__name__


@pytest.mark.parametrize("write", [basket, other_basket, attributes, language])
def test_nothing_else_of_the_request_leaves(visit: Any, pages: Pages, write: Write) -> None:
    pages.write = write
    with visit("db") as site:
        for place in ("/plain", "/awaiting"):
            for payer in ("rejected", "slow"):
                before = site.ask("/me").headers
                answer = pay(site, place, payer)
                assert CONTENT not in str(answer.headers)
                names = (
                    "x-basket",
                    "x-extra",
                    "x-meta",
                    "x-user",
                    "x-language",
                    "x-timezone",
                    "content-language",
                )
                assert [answer.headers[name] for name in names] == [before[name] for name in names]


def test_what_django_notes_of_a_request_stays(visit: Any, pages: Pages) -> None:
    """For whoever logs it: the body that was read, and the route."""
    pages.write = lambda request: request.POST["a"]
    ground = {"OFFERS": {"/open": "daily_report"}}
    with visit("db", MIDDLEWARE=[f"{__name__}.Log", PAYWALL], FAREGATE=ground) as site:
        for place in ("/plain", "/open/plain"):
            for payer in ("good", "rejected"):
                unpaid = site.ask(place, method="POST")
                proof = Wallet.test(payer).pay(unpaid.headers["payment-required"])
                answer = site.ask(place, proof, "POST", data={"a": "1"})
                assert answer.headers["x-log"] == f"{place.strip('/')} b'a=1' 1"


class Log:
    """Middleware outside that reads the request after its view."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        route = request.resolver_match.route if request.resolver_match else None
        response["X-Log"] = f"{route} {request.body!r} {request.POST.get('a')}"
        return response


def test_a_csrf_cookie_of_an_unpaid_result_is_not_set(visit: Any, pages: Pages) -> None:
    pages.write = rotate_token
    with visit("db") as site:
        assert pay(site, "/plain", "rejected").headers.get_list("set-cookie") == []
        names = [one.partition("=")[0] for one in pay(site, "/plain", "good").headers.get_list("set-cookie")]
        assert "csrftoken" in names


@pytest.mark.parametrize(
    "storage", ["cookie.CookieStorage", "session.SessionStorage", "fallback.FallbackStorage"]
)
def test_messages_are_neither_left_nor_consumed(visit: Any, pages: Pages, storage: str) -> None:
    with visit("db", MESSAGE_STORAGE=f"django.contrib.messages.storage.{storage}") as site:
        pages.write = message
        assert pay(site, "/plain", "good").status_code == 200
        pages.write = lambda request: [str(one) for one in messages.get_messages(request)]
        for payer in UNPAID:
            assert pay(site, "/plain", payer).headers.get_list("set-cookie") == []
        pages.write = message
        for payer in UNPAID:
            assert pay(site, "/plain", payer).headers.get_list("set-cookie") == []
        assert site.ask("/me").json()["messages"] == [CONTENT]


def test_a_session_that_middleware_below_writes_is_not_stored(visit: Any, pages: Pages) -> None:
    """Below the paywall the session would be saved before the payment is known."""
    pages.write = put
    below = [HIDDEN, *OUTSIDE[:-1]]
    with visit("db", MIDDLEWARE=below) as site:
        for payer in UNPAID:
            forget(site)
            assert traces(site, pay(site, "/plain", payer)) == []
        assert traces(site, pay(site, "/plain", "good")) != []


# Everything leaves and is stored


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_session_of_a_paid_result_is_what_it_is_without_a_price(
    visit: Any, pages: Pages, backend: str, in_turn: InTurn[Any]
) -> None:
    def outcome(place: str, write: Write) -> Any:
        forget(site)
        site.ask("/start")
        key, pages.write = site.http.cookies["sessionid"], write
        answer = site.ask(place) if place.startswith("/open") else pay(site, place, "good")
        assert (answer.status_code, answer.text) == (200, CONTENT), case
        names = sorted(one.partition("=")[0] for one in answer.headers.get_list("set-cookie"))
        kept = len(list(stored()))
        return names, site.ask("/me").json(), site.http.cookies["sessionid"] == key, kept

    with visit(backend) as site:
        for number, write in enumerate(SESSION_WRITES):
            for place in in_turn(("/plain", "/awaiting"), backend, number):
                case = (write.__name__, place)
                unsold = outcome(f"/open{place}", write)
                assert outcome(place, write) == unsold, case
                assert write in (put_inside_and_save,) or CONTENT in str(unsold[1]), case


def test_an_error_that_a_memo_keeps_leaves_without_the_cookies_of_its_sale(interface: str) -> None:
    kept: list[HttpResponse] = []

    @paid("daily_report")
    def look(_request: HttpRequest) -> HttpResponse:
        response = HttpResponse("none such", status=404)
        response.set_cookie("content", CONTENT)
        return response

    def memo(request: HttpRequest) -> HttpResponse:
        answer = kept[0] if kept else look(request)
        if answer.status_code == 404:
            kept.append(answer)
        return answer

    with served(interface, path("sold", memo)) as site:
        assert pay(site, "/sold", "good").headers.get("set-cookie") is None
        again = site.ask("/sold")
        assert (again.status_code, again.text) == (404, "none such")
        assert again.headers.get("set-cookie") is None


def test_a_free_result_leaves_with_its_session(visit: Any, pages: Pages) -> None:
    pages.write = save
    with visit("db") as site:
        assert site.ask("/free").text == CONTENT
        assert site.ask("/me").json()["session"] == {"content": CONTENT}


def test_what_was_done_before_the_price_is_kept(visit: Any, pages: Pages) -> None:
    """What a login above the price wrote is not the paid view's."""

    def above(view: Any) -> Any:
        def counting(request: HttpRequest) -> Any:
            request.session["visits"] = request.session.get("visits", 0) + 1
            request.session.save()
            return view(request)

        return counting

    pages.write = put
    routes = [*pages.routes(), path("above", above(paid("daily_report")(pages.plain)))]
    with served("wsgi", *routes, MIDDLEWARE=OUTSIDE) as site:
        assert pay(site, "/above", "rejected").status_code == 402
        assert site.ask("/me").json()["session"] == {"visits": 2}


def test_a_store_that_fails_takes_no_result_away(
    visit: Any, pages: Pages, caplog: pytest.LogCaptureFixture
) -> None:
    def save_and_end_the_session(request: Any) -> None:
        save(request)
        Session.objects.all().delete()

    pages.write = save_and_end_the_session
    with visit("db") as site:
        site.ask("/start")
        proof = site.proof("/plain")
        assert site.ask("/plain", proof).status_code == 400  # SessionInterrupted, as without a price
        assert "could not be stored" in caplog.text
        assert (site.statuses, site.ask("/plain", proof).text) == (["succeeded"], CONTENT)
