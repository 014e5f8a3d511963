"""What leaves beside a WSGI response, targets that are no path, refused prefixes, and every way to end."""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from werkzeug.test import create_environ

from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware, on_release, require_payment
from tests.adapters.wsgi_app import CONTENT, PLAIN, SOLD, Seller, Start, anything, selling

UNPAID = {"rejected": 402, "slow": 202, "expires": 202}


class Session(dict[str, Any]):
    """A mapping with attributes, as session middlewares put into the environ."""

    modified = False


def outside(app: Any, seen: list[Any]) -> Any:
    """A session middleware outside of the paywall: it makes its cookie of what it finds in the environ."""

    def middleware(environ: Any, start_response: Start) -> Any:
        session = environ["session"] = Session(known=["free"])
        basket = environ["basket"] = {"items": ["free"]}

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            found = {"session": session, "basket": basket, "extra": environ.get("extra"), "id": id(session)}
            seen.append(copy.deepcopy(found) | {"modified": session.modified})
            assert environ["session"] is session
            return start_response(status, headers, *error)

        return app(environ, start)

    return middleware


def put(environ: Any) -> None:
    environ["session"]["content"] = CONTENT
    environ["session"]["known"].append(CONTENT)
    environ["session"].modified = True
    environ["basket"]["items"].append(CONTENT)
    environ["extra"] = CONTENT


def replace(environ: Any) -> None:
    environ["session"] = Session(content=CONTENT)
    environ["basket"] = CONTENT
    environ["extra"] = CONTENT


def remove(environ: Any) -> None:
    environ["session"].clear()
    del environ["basket"]


def behind_a_session(write: Callable[[Any], None], then: Callable[[], Any], seen: list[Any]) -> Seller:
    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        write(environ)
        then()
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller = Seller(selling(handler))
    seller.client.application = outside(seller.client.application, seen)
    return seller


@pytest.mark.parametrize("write", [put, replace, remove])
@pytest.mark.parametrize("payer", UNPAID)
def test_what_a_handler_left_in_the_environ_is_gone_before_the_payer_is_answered(
    write: Callable[[Any], None], payer: str
) -> None:
    seen = list[Any]()
    seller = behind_a_session(write, lambda: None, seen)
    unpaid = seller.ask()
    answer = seller.ask(proof=Wallet.test(payer).pay(unpaid.headers["PAYMENT-REQUIRED"]))
    assert (answer.status_code, CONTENT in answer.data) == (UNPAID[payer], False)
    assert {**seen[1], "id": 0} == {**seen[0], "id": 0}


@pytest.mark.parametrize("payer", ["good", "slow"])
def test_what_a_handler_left_stays_only_if_its_result_is_released(payer: str) -> None:
    seen = list[Any]()
    seller = behind_a_session(put, lambda: None, seen)
    seller.ask(proof=Wallet.test(payer).pay(seller.ask().headers["PAYMENT-REQUIRED"]))
    assert (seen[1]["extra"] == CONTENT, seen[1]["modified"]) == (payer == "good", payer == "good")


def test_what_an_unsold_handler_leaves_stays() -> None:
    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        put(environ)
        return anything(environ, start_response)

    left = list[Any]()
    seller = Seller(app)
    inner: Any = seller.client.application

    def reading(environ: Any, start_response: Start) -> Iterable[bytes]:
        environ |= {"session": Session(known=[]), "basket": {"items": []}}
        body = list(inner(environ, start_response))
        left.append(environ["extra"])
        return body

    seller.client.application = reading
    assert (seller.ask(proof="bm9uZQ==").data, left) == (CONTENT, [CONTENT])


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(3)])
def test_what_a_handler_that_raised_left_is_gone_when_the_error_goes_on(error: BaseException) -> None:
    def raising() -> None:
        raise error

    seller = behind_a_session(put, raising, [])
    proof = seller.proof()
    inner: Any = seller.client.application
    left = list[Any]()

    def catching(environ: Any, start_response: Start) -> Iterable[bytes]:
        try:
            return list(inner(environ, start_response))
        except BaseException:
            left.append((environ["session"], environ["basket"], environ.get("extra")))
            raise

    seller.client.application = catching
    with pytest.raises(type(error)):
        seller.ask(proof=proof)
    assert left == [({"known": ["free"]}, {"items": ["free"]}, None)]


def test_an_own_answer_that_is_not_charged_has_no_cookies() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("400 Bad Request", [*PLAIN, ("X-Own", "1"), ("Set-Cookie", "content=1")])
        return [b"too short"]

    answer = Seller(selling(handler)).buy()
    assert (answer.status_code, answer.data, answer.headers["X-Own"]) == (400, b"too short", "1")
    assert "Set-Cookie" not in answer.headers


def test_what_waits_for_the_release_is_done_once_the_payment_is_proven() -> None:
    done = list[str]()

    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        def store(result: Any) -> Any:
            done.append(f"{result.status}, {seller.statuses[0]}")
            return (("Set-Cookie", "session=1"),)

        on_release(environ, store)
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller: Seller = Seller(selling(handler))
    for payer in UNPAID:
        seller.ask(proof=Wallet.test(payer).pay(seller.ask().headers["PAYMENT-REQUIRED"]))
    assert done == []
    proof = seller.proof()
    answer = seller.ask(proof=proof)
    assert (answer.headers["Set-Cookie"], done) == ("session=1", ["200, succeeded"])
    again = seller.ask(proof=proof)
    assert (again.data, "Set-Cookie" in again.headers, len(done)) == (CONTENT, False, 1)


def test_what_fails_at_the_release_takes_no_result_away(caplog: pytest.LogCaptureFixture) -> None:
    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        def store(_result: Any) -> Any:
            raise OSError("the store is gone")

        on_release(environ, store)
        start_response("200 OK", PLAIN)
        return [CONTENT]

    assert Seller(selling(handler)).buy().data == CONTENT
    assert "the store is gone" in caplog.text


# Targets


@pytest.mark.parametrize("root", ["", "/app"])
@pytest.mark.parametrize("target", ["http://x/reports/today", "x:/reports/today", "reports/today"])
def test_a_target_that_is_not_a_path_is_served_to_nobody(root: str, target: str) -> None:
    runs = list[str]()

    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        runs.append(environ["PATH_INFO"])
        return anything(environ, start_response)

    for path_rules in ({"offers": {"/reports": "daily_report"}}, {"refuse": ["/reports"]}):
        settings: Any = path_rules
        seller = Seller(app, **settings)
        for method in ("GET", "HEAD", "POST"):
            overrides = {"PATH_INFO": target, "SCRIPT_NAME": root}
            answer = seller.client.open(method=method, environ_overrides=overrides)
            assert (answer.status_code, CONTENT in answer.data) == (400, False)
    assert runs == []


@pytest.mark.parametrize("path_rules", [{"offers": {"/reports": "daily_report"}}, {"refuse": ["/reports"]}])
def test_a_header_that_says_where_the_path_begins_is_refused(path_rules: Any) -> None:
    """Pyramid traverses `/reports/today` for a request of `/today` with this header."""
    headers = {"X-Vhm-Root": "/reports"}
    answer = Seller(anything, **path_rules).client.get("/today", headers=headers)
    assert (answer.status_code, CONTENT in answer.data) == (400, False)
    assert Seller(anything).client.get("/today", headers=headers).data == CONTENT


@pytest.mark.parametrize("path_rules", [{"offers": {"/reports": "daily_report"}}, {"refuse": ["/reports"]}])
def test_a_header_that_is_taken_off_the_path_makes_no_difference(path_rules: Any) -> None:
    """Radicale takes it off if the request has X-Forwarded-For, too."""
    headers = {"X-Script-Name": "/zz"}
    for root in ("", "/zz", "/app"):
        overrides = {"SCRIPT_NAME": root, "PATH_INFO": "/zz/reports/today"}
        answer = Seller(anything, **path_rules).client.get(headers=headers, environ_overrides=overrides)
        assert (answer.status_code in (402, 403), CONTENT in answer.data) == (True, False)
    assert Seller(anything, **path_rules).client.get("/zz/free", headers=headers).data == CONTENT
    assert Seller(anything).client.get("/zz/reports", headers=headers).data == CONTENT


@pytest.mark.parametrize(
    "path_rules", [{"offers": {"/a/reports": "daily_report"}}, {"refuse": ["/a/reports"]}]
)
def test_what_is_sold_is_not_copied_with_what_is_above_it(path_rules: Any) -> None:
    headers = {"Destination": "http://localhost/pub"}
    for path in ("/", "/a", "/a/reports/today"):
        answer = Seller(anything, **path_rules).client.open(path, method="COPY", headers=headers)
        assert (answer.status_code, CONTENT in answer.data) == (400, False)
    assert Seller(anything, **path_rules).client.open("/a/b", method="COPY", headers=headers).data == CONTENT


def test_a_prefix_before_zope_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It publishes `/news/reports` and `/?reports:method=` as `/reports`."""
    monkeypatch.setitem(sys.modules, "ZPublisher", sys)
    settings: Any
    for settings in ({"offers": {"/reports": "daily_report"}}, {"refuse": ["/reports"]}):
        with pytest.raises(ConfigurationError, match="Use the prefix '/'"):
            Seller(anything, **settings)
    assert Seller(anything, offers={"/": "daily_report"}).ask("/reports").status_code == 402
    assert Seller(anything).ask("/reports").data == CONTENT


def test_an_empty_path_is_the_root() -> None:
    seller = Seller(anything, offers={"/reports": "daily_report"})
    assert seller.ask("").data == CONTENT
    overrides = {"PATH_INFO": "", "SCRIPT_NAME": "/reports"}
    assert seller.client.open(environ_overrides=overrides).status_code == 402


# Refused prefixes


def test_what_is_refused_does_not_run() -> None:
    runs = list[str]()

    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        runs.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] == "/closed/own":
            require_payment(environ, SOLD)
        return anything(environ, start_response)

    seller = Seller(app, offers={"/closed/sold": "daily_report"}, refuse=["/closed"])
    for path in ("/closed", "/closed/x", "/CLOSED//x", "/closed/own"):
        for method in ("GET", "POST", "OPTIONS"):
            answer = seller.ask(path, method=method)
            assert (answer.status_code, CONTENT in answer.data) == (403, False)
    assert runs == []
    assert seller.buy("/closed/sold").data == CONTENT
    assert (seller.ask("/open").data, runs) == (CONTENT, ["/closed/sold", "/open"])


# Misuse


def test_the_middleware_around_itself_fails_the_start() -> None:
    paywall = Paywall(base_url="emulator:", environ={})
    inner = PaywallMiddleware(anything, paywall)
    with pytest.raises(ConfigurationError, match="twice"):
        PaywallMiddleware(inner, paywall)


async def an_asgi_app(_scope: Any, _receive: Any, _send: Any) -> None: ...


class AsgiApp:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize(
    ("app", "says"),
    [
        *((app, "WSGI application") for app in (None, "shop:app", object())),
        *((app, r"faregate\.asgi") for app in (an_asgi_app, AsgiApp())),
    ],
)
def test_what_is_no_wsgi_application_fails_the_start(app: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        PaywallMiddleware(app, base_url="emulator:")


# Every way to end


class Panic(BaseException):
    """As the panics of Rust extensions are."""


ENDS = [
    Panic(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    BaseExceptionGroup("both", [Panic(), ValueError()]),
]


def in_the_call(error: BaseException) -> Any:
    def handler(_environ: Any, _start: Start) -> Iterable[bytes]:
        raise error

    return handler


def in_the_stream(error: BaseException) -> Any:
    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return self

        def __next__(self) -> bytes:
            raise error

    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", PLAIN)
        return Body()

    return handler


def after_a_chunk(error: BaseException) -> Any:
    def handler(_environ: Any, start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        yield CONTENT
        raise error

    return handler


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", [in_the_call, in_the_stream, after_a_chunk])
def test_whatever_ends_the_work_is_reported_and_goes_on(
    where: Callable[[BaseException], Any], error: BaseException
) -> None:
    seller = Seller(selling(where(error), offer("daily_report")))
    proof = seller.proof()
    with pytest.raises(type(error)):
        seller.ask("/", proof)
    assert seller.statuses == ["failed"]
    assert seller.ask("/", proof).status_code == 402


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_free_generator_may_answer_its_own_error(is_asked: bool) -> None:
    """As PEP 3333 has it, with `exc_info`, before anything is sent. One that asks for a payment may not."""

    def app(environ: Any, start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)

        def run() -> Iterator[bytes]:
            try:
                if is_asked:
                    require_payment(environ, SOLD)
                raise LookupError
                yield b""
            except Exception:
                start_response("500 Failed", PLAIN, sys.exc_info())
                yield CONTENT if is_asked else b"failed"

        return run()

    started: list[str] = []

    def start(status: str, _headers: Any, _error: Any = None) -> Callable[[bytes], object]:
        started.append(status)  # a server raises the error if it has sent something
        return lambda _chunk: None

    guarded = PaywallMiddleware(app, Paywall(base_url="emulator:", environ={}))
    answer = guarded(create_environ(), start)
    if is_asked:
        with pytest.raises(ConfigurationError):
            list(answer)
        assert started == ["200 OK"]
    else:
        assert (list(answer), started) == ([b"failed"], ["200 OK", "500 Failed"])
