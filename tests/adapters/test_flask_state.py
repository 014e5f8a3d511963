"""What a paid Flask view leaves beside its response leaves, and is stored, only with a released result."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cachelib
import pytest
from flask import (
    Flask,
    Response,
    after_this_request,
    current_app,
    flash,
    get_flashed_messages,
    jsonify,
    request,
    session,
)
from flask.sessions import SecureCookieSession, SessionInterface
from flask_login import LoginManager, UserMixin, current_user, login_user, logout_user
from flask_session import Session as ServerSideSession
from werkzeug.test import TestResponse

from faregate.emulator import Wallet
from faregate.flask import Faregate
from tests.adapters.flask_app import Seller, paywall

CONTENT = "paid-content-4711"
UNPAID = {"rejected": 402, "slow": 202, "expires": 202}

Write = Callable[[], Any]


class Member(UserMixin):  # type: ignore[misc]
    id = "member"


def put() -> None:
    session["content"] = CONTENT


def put_inside() -> None:
    session["known"].append(CONTENT)
    session.modified = True


def clear() -> None:
    session.clear()
    session["content"] = CONTENT


def flashed() -> None:
    flash(CONTENT)


def late() -> None:
    @after_this_request
    def more(response: Response) -> Response:
        session["content"] = CONTENT
        response.set_cookie("content", CONTENT)
        response.headers["X-Content"] = CONTENT
        return response


def login() -> None:
    session["content"] = CONTENT
    login_user(Member(), remember=True)


def logout() -> None:
    logout_user()
    session["content"] = CONTENT


WRITES: list[Write] = [put, put_inside, clear, flashed, late, login, logout]


class OwnInterface(SessionInterface):
    """A seller's own: it stores in a dict, and needs the request to do so."""

    def __init__(self) -> None:
        self.store: dict[str, dict[str, Any]] = {}

    def open_session(self, app: Flask, request: Any) -> SecureCookieSession:
        return SecureCookieSession(copy.deepcopy(self.store.get(request.cookies.get("own", ""), {})))

    def save_session(self, app: Flask, session: Any, response: Response) -> None:
        if session.modified:
            key = request.cookies.get("own") or str(len(self.store))
            self.store[key] = copy.deepcopy(dict(session))
            response.set_cookie("own", key)
            response.headers["X-Own-Session"] = current_app.name


class SharedInterface(OwnInterface):
    """In memory: a request is given the very object that is stored."""

    def open_session(self, app: Flask, request: Any) -> SecureCookieSession:
        kept: Any = self.store.get(request.cookies.get("own", ""))
        return SecureCookieSession() if kept is None else kept

    def save_session(self, app: Flask, session: Any, response: Response) -> None:
        if session.modified:
            key = request.cookies.get("own") or str(len(self.store))
            self.store[key] = session
            response.set_cookie("own", key)
            response.headers["X-Own-Session"] = current_app.name


def shared_sessions(app: Flask, _folder: Path) -> None:
    app.session_interface = SharedInterface()


def cookie_sessions(_app: Flask, _folder: Path) -> None:
    """Flask's own."""


def cachelib_sessions(app: Flask, folder: Path) -> None:
    backend = cachelib.FileSystemCache(str(folder))
    app.config.update(SESSION_TYPE="cachelib", SESSION_CACHELIB=backend)
    ServerSideSession(app)


def own_sessions(app: Flask, _folder: Path) -> None:
    app.session_interface = OwnInterface()


SESSIONS = {
    "cookies": cookie_sessions,
    "flask-session": cachelib_sessions,
    "own": own_sessions,
    "shared": shared_sessions,
}


class Pages:
    """An app with a paid view that does what it is told, and a browser."""

    def __init__(self, app: Flask) -> None:
        # Each purchase runs: a payer buys one page again while an earlier payment is open.
        self.seller = Seller(app, resume_open_payments=False)
        self.app = app
        self.write: Write = put
        self.then = ""
        self.runs = 0
        app.add_url_rule("/start", view_func=self.start)
        app.add_url_rule("/me", view_func=self.me)
        app.add_url_rule("/open", view_func=lambda: self.view(), endpoint="open")
        app.add_url_rule("/sold", view_func=paywall.paid("daily_report")(lambda: self.view()))
        app.add_url_rule("/free", "free", paywall.paid("free_notes")(lambda: self.view()))
        manager = LoginManager(app)
        manager.user_loader(lambda _name: Member())
        self.forget()

    def forget(self) -> None:
        """A new browser."""
        self.browser = self.app.test_client()

    def start(self) -> str:
        session["known"] = ["free"]
        return "started"

    def me(self) -> Response:
        told = get_flashed_messages()
        return jsonify(session=dict(session), messages=told, user=current_user.is_authenticated)

    def view(self) -> Response:
        self.runs += 1
        self.write()
        if self.then == "raise":
            raise ZeroDivisionError
        response = Response(CONTENT, 404 if self.then == "404" else 200)
        response.set_cookie("content", CONTENT)
        return response

    def ask(self, path: str, **headers: str) -> TestResponse:
        return self.browser.get(path, headers=headers, buffered=True)

    def pay(self, path: str, payer: str) -> TestResponse:
        unpaid = self.ask(path)
        assert unpaid.status_code == 402
        proof = Wallet.test(payer).pay(unpaid.headers["PAYMENT-REQUIRED"])
        return self.ask(path, **{"PAYMENT-SIGNATURE": proof})

    def stored(self, folder: Path) -> str:
        """All that is stored on the server."""
        interface: Any = self.app.session_interface
        return str(getattr(interface, "store", "")) + str([one.read_bytes() for one in folder.iterdir()])


@pytest.fixture(params=[False, True], ids=["before", "after"])
def pages(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Pages:
    """The session interface is chosen before or after the paywall is put around the app."""
    app = Flask("seller")
    app.secret_key = "secret"
    if request.param:
        SESSIONS[kind](app, tmp_path)
        return Pages(app)
    pages = Pages(app)
    SESSIONS[kind](app, tmp_path)
    return pages


@pytest.fixture(params=SESSIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_nothing_of_an_unpaid_result_leaves_or_is_stored(pages: Pages, tmp_path: Path) -> None:
    for write in WRITES:
        for payer, status in UNPAID.items():
            pages.forget()
            pages.ask("/start")
            pages.write, runs = write, pages.runs
            answer = pages.pay("/sold", payer)
            case = (write.__name__, payer)
            assert (answer.status_code, pages.runs) == (status, runs + 1), case
            assert answer.headers.getlist("Set-Cookie") == [], case
            assert CONTENT not in f"{answer.text} {answer.headers} {pages.stored(tmp_path)}", case
            seen = pages.ask("/me").get_json()
            assert seen == {"session": seen["session"], "messages": [], "user": False}, case
            assert seen["session"]["known"] == ["free"], case
            assert CONTENT not in str(seen), case


@pytest.mark.parametrize("then", ["raise", "404"])
def test_nothing_of_failed_work_leaves_or_is_stored(pages: Pages, tmp_path: Path, then: str) -> None:
    for write in WRITES:
        pages.forget()
        pages.ask("/start")
        pages.write, pages.then = write, then
        answer = pages.pay("/sold", "good")
        case = write.__name__
        assert answer.status_code == (500 if then == "raise" else 404), case
        assert answer.headers.getlist("Set-Cookie") == [], case
        assert CONTENT not in f"{pages.stored(tmp_path)} {pages.ask('/me').text}", case


def test_all_of_a_paid_result_leaves_and_is_stored_as_without_a_price(pages: Pages) -> None:
    def outcome(path: str, write: Write) -> Any:
        pages.forget()
        pages.ask("/start")
        pages.write = write
        answer = pages.ask(path) if path == "/open" else pages.pay(path, "good")
        assert (answer.status_code, answer.text) == (200, CONTENT)
        names = sorted(one.partition("=")[0] for one in answer.headers.getlist("Set-Cookie"))
        seen = pages.ask("/me").get_json()
        for name in ("_id", "_fresh", "_user_id"):
            seen["session"].pop(name, None)
        return names, answer.headers.get("X-Own-Session"), seen

    for write in WRITES:
        unsold = outcome("/open", write)
        assert CONTENT in str(unsold)
        assert outcome("/sold", write) == unsold, write.__name__


def test_an_error_that_a_memo_keeps_leaves_without_the_session_of_its_sale() -> None:
    app, kept = Flask("seller"), list[Any]()
    seller = Seller(app)

    def look() -> Response:
        put()
        late()
        return Response("none such", 404)

    sold = paywall.paid("daily_report")(look)

    def memo() -> Any:
        if not kept and (answer := sold()).status_code == 404:
            kept.append(answer)
        return kept[0] if kept else sold()

    app.add_url_rule("/sold", "sold", memo)
    assert seller.buy("/sold").status_code == 404
    assert len(kept[0].headers.getlist("Set-Cookie")) == 2
    again = seller.ask("/sold")
    assert (again.status_code, again.text) == (404, "none such")
    assert again.headers.getlist("Set-Cookie") == []


def test_a_free_result_leaves_with_its_session(pages: Pages) -> None:
    assert pages.ask("/free").text == CONTENT
    assert pages.ask("/me").get_json()["session"]["content"] == CONTENT


def test_flashed_messages_are_not_consumed(pages: Pages) -> None:
    pages.write = flashed
    assert pages.pay("/sold", "good").status_code == 200
    pages.write = get_flashed_messages
    for payer, status in UNPAID.items():
        assert pages.pay("/sold", payer).status_code == status
    assert pages.ask("/me").get_json()["messages"] == [CONTENT]


# A store of the seller's own


@pytest.fixture
def own(tmp_path: Path) -> Pages:
    app = Flask("seller")
    own_sessions(app, tmp_path)
    return Pages(app)


def test_a_result_that_is_handed_out_again_stores_nothing_again(own: Pages) -> None:
    proof = Wallet().pay(own.ask("/sold").headers["PAYMENT-REQUIRED"])
    assert "own=" in str(own.ask("/sold", **{"PAYMENT-SIGNATURE": proof}).headers)
    own.forget()
    again = own.ask("/sold", **{"PAYMENT-SIGNATURE": proof})
    assert (again.text, own.runs, "own=" in str(again.headers)) == (CONTENT, 1, False)


def test_a_store_that_fails_takes_no_result_away(own: Pages, caplog: pytest.LogCaptureFixture) -> None:
    class Full(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            raise OSError("no space left")

    interface: Any = own.app.session_interface
    interface.store = Full()
    assert own.pay("/sold", "good").text == CONTENT
    assert (own.seller.statuses, "no space left" in caplog.text) == (["succeeded"], True)


def test_what_is_stored_late_has_an_application_context_that_ends(own: Pages) -> None:
    ends = list[str]()

    @own.app.teardown_appcontext
    def ended(_error: BaseException | None) -> None:
        ends.append("store" if interface.store else "request")

    interface: Any = own.app.session_interface
    ends.clear()
    own.pay("/sold", "good")
    assert ends == ["request", "request", "store"]


def test_an_interface_that_cannot_be_held_back_is_an_error_and_stores_nothing(own: Pages) -> None:
    class Fixed(OwnInterface):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name != "store":
                raise AttributeError(name)
            super().__setattr__(name, value)

    own.app.session_interface = interface = Fixed()
    answer = own.ask("/sold")
    assert (answer.status_code, interface.store) == (500, {})


def test_an_interface_is_shared_by_apps_with_and_without_a_paywall(own: Pages) -> None:
    other = Flask("other")
    other.session_interface = own.app.session_interface
    other.add_url_rule("/", view_func=own.start)
    own.pay("/sold", "rejected")
    assert "own=" in other.test_client().get("/").headers["Set-Cookie"]


def test_closing_callbacks_run_whether_released_or_not(own: Pages) -> None:
    closed = list[str]()

    @own.app.get("/closing")
    @paywall.paid("daily_report")
    def closing() -> Response:
        response = Response(CONTENT)
        response.call_on_close(lambda: closed.append(own.seller.statuses[0]))
        return response

    for payer in ("good", "rejected", "slow"):
        own.pay("/closing", payer)
    assert closed == ["succeeded", "failed", "settling"]


def test_the_extension_leaves_flask_s_own_sessions_alone() -> None:
    app = Flask("seller")
    app.config.update(FAREGATE_BASE_URL="emulator:", SECRET_KEY="secret")
    Faregate(app)
    app.add_url_rule("/", view_func=lambda: "")
    app.test_client().get("/")
    assert vars(Flask.session_interface) == {}
    assert "session_interface" not in vars(app)
