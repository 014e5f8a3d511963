"""What an error handler of Flask answers in place of a paid view is no result: its payer is not charged."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import flask
import pytest
from werkzeug.exceptions import Forbidden
from werkzeug.test import Client

from faregate.emulator import Wallet
from faregate.flask import Faregate
from tests.adapters.test_exception_answers import LOGIN, Stranger, list_statuses
from tests.attacks.site import make_paywall


def buy_from_flask(
    view: Callable[[], Any],
    set_up: Callable[[flask.Flask], Any] = lambda app: None,
    bodies: list[bytes] | None = None,
    **options: Any,
) -> tuple[int, list[str]]:
    """Sold by `paid`; with `all=True` by `paid_all`, with `prefix=True` by its prefix.

    The body of the answer is added to `bodies`.
    """
    paywall, front, app = make_paywall(), Faregate(), flask.Flask(__name__)
    is_all, is_prefix = options.pop("all", False), options.pop("prefix", False)
    if is_prefix:
        app.config["FAREGATE_OFFERS"] = {"/sold": "daily_report"}
    front.init_app(app, paywall)
    if is_all:
        front.paid_all(app, "daily_report")
    set_up(app)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    def sold() -> Any:  # a price marks the function that it is on
        return view()

    if not (is_all or is_prefix):
        sold = front.paid("daily_report", **options)(sold)
    app.add_url_rule("/sold", "sold", sold)
    client = Client(app)
    unpaid = client.get("/sold")
    assert unpaid.status_code == 402
    proof = Wallet().pay(unpaid.headers["payment-required"])
    answer = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
    if bodies is not None:
        bodies.append(answer.data)
    return answer.status_code, list_statuses(paywall)


def fail() -> Any:
    raise Stranger


def answer_late(app: flask.Flask) -> None:
    app.register_error_handler(500, lambda _: "Sorry.")

    @app.after_request
    def break_off(response: flask.Response) -> flask.Response:
        raise Stranger if response.status_code == 200 and response.data == b"result" else StopAsyncIteration


def answer_itself(app: flask.Flask) -> None:
    """Answer exceptions as the APIs of Flask-RESTful and Flask-RESTX do, added after the paywall."""
    answer = app.handle_user_exception

    def answer_strangers(error: Exception) -> Any:
        return app.make_response(("Sorry.", 200)) if isinstance(error, Stranger) else answer(error)

    app.handle_user_exception = answer_strangers  # type: ignore[assignment,method-assign]


FLASK: dict[str, tuple[Callable[[], Any], Callable[[flask.Flask], Any]]] = {
    "a login": (fail, lambda app: app.register_error_handler(Stranger, lambda _: flask.redirect(LOGIN))),
    "abort with a redirect": (lambda: flask.abort(flask.redirect(LOGIN)), lambda app: None),
    "a page without a status": (
        lambda: flask.abort(404),
        lambda app: app.register_error_handler(404, lambda _: "Not found."),
    ),
    "any error": (fail, lambda app: app.register_error_handler(Exception, lambda _: "Sorry.")),
    "any error, late": (fail, lambda app: app.register_error_handler(500, lambda _: "Sorry.")),
    "an extension": (fail, answer_itself),
    "after the view": (lambda: "result", answer_late),
    "before the view": (
        lambda: "result",
        lambda app: app.before_request(lambda: flask.abort(flask.redirect("/"))),
    ),
}


@pytest.mark.parametrize(
    ("case", "where"),
    [
        (case, where)
        for case in FLASK
        for where in ("view", "all", "prefix")
        if case != "before the view" or where == "prefix"  # elsewhere, no payment is asked for yet
    ],
)
def test_an_exception_that_flask_answers_is_failed_work(case: str, where: str) -> None:
    view, set_up = FLASK[case]
    options: dict[str, Any] = {} if where == "view" else {where: True}
    assert buy_from_flask(view, set_up, **options) == (500, ["failed"])


def test_a_redirect_that_a_view_returns_is_a_result() -> None:
    assert buy_from_flask(lambda: flask.redirect(LOGIN, 303)) == (303, ["succeeded"])


def test_an_error_that_the_offer_bills_is_billed_when_it_is_raised() -> None:
    billable = frozenset((200, 404))
    assert buy_from_flask(lambda: flask.abort(404), billable=billable) == (404, ["succeeded"])


def envelop(response: flask.Response) -> flask.Response:
    return flask.jsonify(code=response.status_code, data=response.get_data(as_text=True))


def answer_with_200(app: flask.Flask) -> None:
    """Put WSGI middleware between the paywall and the app."""
    front = app.extensions["faregate"]
    inner = front.app

    def run(environ: Any, start_response: Any) -> Any:
        return inner(environ, lambda _status, headers, *error: start_response("200 OK", headers, *error))

    front.app = run


ERRORS: dict[str, Callable[[], Any]] = {
    "a tuple": lambda: ({"found": None}, 404),
    "a status line": lambda: ("No.", "422 Unprocessable"),
    "a response": lambda: flask.Response("No.", 500),
}


@pytest.mark.parametrize("where", ["view", "all", "prefix"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "set_up",
    [lambda app: app.after_request(envelop), answer_with_200],
    ids=["after the view", "around the app"],
)
def test_an_error_in_an_envelope_is_failed_work(set_up: Any, error: str, where: str) -> None:
    options: dict[str, Any] = {} if where == "view" else {where: True}
    assert buy_from_flask(ERRORS[error], set_up, **options) == (500, ["failed"])


@pytest.mark.parametrize("status", [200, 404])
def test_what_the_offer_bills_is_sold_in_an_envelope(status: int) -> None:
    sold = buy_from_flask(
        lambda: ({"found": None}, status),
        lambda app: app.after_request(envelop),
        billable=frozenset((200, 404)),
    )
    assert sold == (200, ["succeeded"])


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_that_a_decorator_above_the_price_answers_is_failed_work(error: str) -> None:
    def answer_all(app: flask.Flask) -> None:
        add = app.add_url_rule

        def add_enveloped(rule: str, endpoint: str, view: Any) -> None:
            add(rule, endpoint, wraps(view)(lambda: envelop(app.make_response(view()))))

        app.add_url_rule = add_enveloped  # type: ignore[assignment]

    assert buy_from_flask(ERRORS[error], answer_all) == (500, ["failed"])


def refuse_after(app: flask.Flask) -> None:
    @app.after_request
    def refuse(response: flask.Response) -> flask.Response:
        response.status_code = 403
        return response


def refuse_around(app: flask.Flask) -> None:
    front = app.extensions["faregate"]
    inner = front.app

    def run(environ: Any, start_response: Any) -> Any:
        return inner(environ, lambda _status, headers, *error: start_response("403 No", headers, *error))

    front.app = run


def quote_late(app: flask.Flask) -> None:
    app.register_error_handler(500, lambda error: (str(error.original_exception), 500))

    @app.after_request
    def quote(response: flask.Response) -> flask.Response:
        if response.status_code == 200:
            raise ValueError(response.get_data(as_text=True))
        return response


@pytest.mark.parametrize("where", ["view", "all", "prefix"])
@pytest.mark.parametrize(("set_up", "status"), [(refuse_after, 403), (refuse_around, 403), (quote_late, 500)])
def test_an_error_that_is_made_of_a_result_does_not_carry_it(
    set_up: Any, status: int, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {} if where == "view" else {where: True}
    bodies: list[bytes] = []
    with caplog.at_level(logging.WARNING, "faregate"):
        assert buy_from_flask(lambda: "result", set_up, bodies=bodies, **options) == (status, ["failed"])
    assert bodies == [b""]
    assert f"the error {status} may carry a result" in caplog.text


@pytest.mark.parametrize("answer", ["result", ("result",), ("result", {"X-Header": "1"}), ("result", 201)])
def test_an_error_that_a_decorator_above_the_price_makes_of_a_result_does_not_carry_it(answer: Any) -> None:
    def refuse(app: flask.Flask) -> None:
        add = app.add_url_rule

        def add_refused(rule: str, endpoint: str, view: Any) -> None:
            add(rule, endpoint, wraps(view)(lambda: (view() and "result", 403)))

        app.add_url_rule = add_refused  # type: ignore[assignment]

    bodies: list[bytes] = []
    assert buy_from_flask(lambda: answer, refuse, bodies=bodies) == (403, ["failed"])
    assert bodies == [b""]


@pytest.mark.parametrize(
    "answer", [("No.", 403), flask.Response("No.", 403), (flask.Response("No.", 403), {"X-Header": "1"})]
)
def test_the_error_of_a_view_leaves_with_its_body(answer: Any) -> None:
    bodies: list[bytes] = []
    assert buy_from_flask(lambda: answer, bodies=bodies) == (403, ["failed"])
    assert bodies == [b"No."]


def test_an_error_that_a_view_returns_as_an_exception_leaves_with_its_body() -> None:
    bodies: list[bytes] = []
    assert buy_from_flask(lambda: Forbidden("No."), bodies=bodies) == (403, ["failed"])
    assert b"No." in bodies[0]
