"""A request without a payment is asked for the price of its view before Flask makes a context and routes.

What is answered, and what the service is asked, are as if the view had asked itself.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import flask.sessions
import pytest
from flask import Blueprint, Flask, request_started
from flask.views import MethodView
from werkzeug.exceptions import SecurityError
from werkzeug.test import create_environ

from faregate.core.models import Response
from faregate.emulator import Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError
from faregate.flask import Faregate
from faregate.paywall import Paywall
from tests.routes.test_first_prices import FAILED, FREE, GRANTED, REFUSED, UNPAID

Answer = tuple[str, list[tuple[str, str]], bytes]
Add = Callable[[Flask, Faregate], object]


class Service(EmbeddedTransport):
    """Answers access as it is told, and keeps what it was asked."""

    def __init__(self, answer: Response = UNPAID) -> None:
        super().__init__(Emulator())
        self.answer = answer
        self.asked: list[tuple[str, bytes | None]] = []

    def send(self, method: str, url: str, headers: Any, body: bytes | None, seconds: float) -> Response:
        self.asked.append((url, body))
        if url.endswith("/access"):
            return self.answer
        return super().send(method, url, headers, body, seconds)


def report() -> dict[str, str]:
    """The report of today."""
    return {"report": "sunny"}


@pytest.fixture(autouse=True)
def routed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that Flask has routed."""
    create, paths = Flask.create_url_adapter, list[str]()

    def note(self: Flask, request: Any) -> Any:
        if request is not None:
            paths.append(request.path)
        return create(self, request)

    monkeypatch.setattr(Flask, "create_url_adapter", note)
    return paths


def make_paywall(service: Service) -> Paywall:
    return Paywall(
        base_url="http://service.example",
        api_key="svc_test_emulator",
        public_url="https://shop.example",
        environ={},
        transport=service,
    )


def make_app(
    add: Add = lambda app, paywall: None, answer: Response = UNPAID, cls: type[Flask] = Flask
) -> tuple[Flask, Service]:
    """An app that has had its first request. `add` is called before that."""
    app, paywall, service = cls("shop"), Faregate(), Service(answer)
    app.add_url_rule("/report", view_func=paywall.paid("daily_report")(report), methods=["GET", "POST"])
    app.add_url_rule("/free", view_func=lambda: "free", endpoint="free")
    paywall.init_app(app, make_paywall(service))
    add(app, paywall)
    ask(app, "/free")
    service.asked.clear()
    return app, service


def ask(app: Flask, path: str = "/report", **environ: Any) -> Answer:
    started: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
        started.append((status, headers))
        return bytes

    body = b"".join(app(create_environ(path, **environ), start))
    status, headers = started[0]
    return status, headers, body


def ask_itself(app: Flask, paywall: Faregate) -> None:
    """Let a function run before each request: it might answer, so the view asks for its price itself."""
    app.before_request(lambda: None)


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "head": {"method": "HEAD"},
    "post": {"method": "POST", "data": b'{"day": 1}'},
    "query": {"query_string": "day=1"},
    "mounted": {"base_url": "https://shop.example/api"},
    "browser": {"headers": {"Accept": "text/html"}},
    "script of a page": {"headers": {"Origin": "https://page.example"}},
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("answer", [UNPAID, GRANTED, FAILED, REFUSED], ids=lambda answer: str(answer.status))
def test_the_price_is_asked_for_before_routing_with_the_same_answer_and_question(
    name: str, answer: Response, routed: list[str]
) -> None:
    (app, service), (other, other_service) = make_app(answer=answer), make_app(ask_itself, answer)
    routed.clear()
    first = ask(app, **REQUESTS[name])
    assert routed == []
    assert first == ask(other, **REQUESTS[name])
    assert routed == ["/report"]
    assert service.asked == other_service.asked != []


def test_what_is_free_is_asked_for_once_and_served(routed: list[str]) -> None:
    app, service = make_app(answer=FREE)
    routed.clear()
    assert ask(app)[0] == "200 OK"
    assert len([url for url, _ in service.asked if url.endswith("/access")]) == 1
    assert routed == ["/report"]


def test_a_first_request_is_the_apps(routed: list[str]) -> None:
    """It makes the app refuse routes that are added too late, as its developer expects."""
    app, paywall = Flask("shop"), Faregate()
    app.add_url_rule("/report", view_func=paywall.paid("daily_report")(report))
    paywall.init_app(app, make_paywall(Service()))
    assert ask(app)[0][:3] == "402"
    assert routed == ["/report"]
    with pytest.raises(AssertionError, match="add_url_rule"):
        app.add_url_rule("/late", view_func=report)
    assert ask(app)[0][:3] == "402"
    assert routed == ["/report"]


def test_a_mistake_is_answered_by_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its developer may have a page for errors, and is told of them."""

    def fail(*_: object, **__: object) -> None:
        raise ConfigurationError("The offer cannot be sold.")

    told: list[BaseException] = []

    def explain(error: Exception) -> tuple[str, int]:
        told.append(error)
        return "sorry", 500

    monkeypatch.setattr(Paywall, "build_request", fail)
    adds: tuple[Add, ...] = (lambda app, paywall: None, ask_itself)
    answers = [ask(make_app(add_handler(add, explain))[0]) for add in adds]
    assert answers[0] == answers[1]
    assert [str(error) for error in told] == ["The offer cannot be sold."] * 2


def add_handler(add: Add, explain: Callable[[Exception], Any]) -> Add:
    def both(app: Flask, paywall: Faregate) -> None:
        add(app, paywall)
        app.register_error_handler(Exception, explain)

    return both


# What leaves the question to the app


class OwnFlask(Flask):
    pass


class OwnInterface(flask.sessions.SecureCookieSessionInterface):
    pass


def replace_dispatch(app: Flask, paywall: Faregate) -> None:
    dispatch = app.dispatch_request
    app.dispatch_request = lambda: dispatch()  # type: ignore[method-assign]


def add_to_blueprint(app: Flask, paywall: Faregate) -> None:
    """Functions of one blueprint are not looked at more closely than those of another."""
    blueprint = Blueprint("admin", "admin")
    blueprint.before_request(lambda: None)
    app.register_blueprint(blueprint)


def set_config(name: str, value: Any) -> Add:
    def add(app: Flask, paywall: Faregate) -> None:
        app.config[name] = value

    return add


def add_function(name: str) -> Add:
    """Have the app call a function that does nothing, at the moment of this name."""

    def run(*values: Any) -> Any:
        return values[0] if name == "after_request" else None

    def add(app: Flask, paywall: Faregate) -> None:
        getattr(app, name)(run)

    return add


def choose_interface(app: Flask, paywall: Faregate) -> None:
    app.session_interface = OwnInterface()


def subscribe(app: Flask, paywall: Faregate) -> None:
    request_started.connect(_receive, app)


def _receive(sender: Any, **_: Any) -> None:
    return None


def keep(view: Any) -> Any:
    return wraps(view)(lambda: view())


def replace_view(change: Callable[[Any], Any]) -> Add:
    def add(app: Flask, paywall: Faregate) -> None:
        app.view_functions["report"] = change(app.view_functions["report"])

    return add


def choose(request: Any) -> str:
    return "daily_report"


def sell_by_choice(app: Flask, paywall: Faregate) -> None:
    app.view_functions["report"] = paywall.paid(choose, among=["daily_report"])(report)


class Reports(MethodView):
    def get(self) -> dict[str, str]:
        return report()


def sell_class(app: Flask, paywall: Faregate) -> None:
    app.view_functions["report"] = paywall.paid("daily_report")(Reports.as_view("reports"))


def trace(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch: Any = vars(Flask)["full_dispatch_request"]

    @wraps(dispatch)
    def traced(self: Any) -> Any:
        return dispatch(self)

    monkeypatch.setattr(Flask, "full_dispatch_request", traced)


ASKS_ITSELF: dict[str, Add] = {
    "a function before requests": ask_itself,
    "a function of a blueprint": add_to_blueprint,
    "a function after requests": add_function("after_request"),
    "a function at the end": add_function("teardown_request"),
    "a function for values": add_function("url_value_preprocessor"),
    "a receiver of a signal": subscribe,
    "an interface for sessions": choose_interface,
    "a method that was replaced": replace_dispatch,
    "a request class": lambda app, paywall: setattr(app, "request_class", type("Own", (flask.Request,), {})),
    "trusted hosts": set_config("TRUSTED_HOSTS", ["localhost"]),
    "a server name": set_config("SERVER_NAME", "localhost"),
    "a decorator above the price": replace_view(keep),
    "a function that chooses": sell_by_choice,
}


@pytest.mark.parametrize("name", ASKS_ITSELF)
def test_the_view_asks_where_something_else_may_answer_or_run(name: str, routed: list[str]) -> None:
    app, _ = make_app(ASKS_ITSELF[name])
    routed.clear()
    assert ask(app)[0][:3] == "402"
    assert routed == ["/report"]


def test_the_view_of_an_app_of_an_own_class_asks(routed: list[str]) -> None:
    app, _ = make_app(cls=OwnFlask)
    routed.clear()
    assert ask(app)[0][:3] == "402"
    assert routed == ["/report"]


def test_a_tracer_that_replaces_a_method_of_flask_sees_each_request(
    monkeypatch: pytest.MonkeyPatch, routed: list[str]
) -> None:
    trace(monkeypatch)
    app, _ = make_app()
    routed.clear()
    assert ask(app)[0][:3] == "402"
    assert routed == ["/report"]


def test_a_memo_above_the_price_is_found(routed: list[str]) -> None:
    app, _ = make_app(replace_view(cache))
    routed.clear()
    assert ask(app)[0][:3] == "500"
    assert routed == ["/report"]


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", "200"), ("PUT", "405")])
def test_what_flask_answers_itself_is_answered_by_flask(method: str, status: str, routed: list[str]) -> None:
    app, _ = make_app()
    routed.clear()
    assert ask(app, method=method)[0][:3] == status
    assert routed == ["/report"]


def test_a_host_that_werkzeug_refuses_is_answered_by_flask(
    monkeypatch: pytest.MonkeyPatch, routed: list[str]
) -> None:
    def refuse(*_: object) -> str:
        raise SecurityError("This is no host.")

    app, _ = make_app()
    monkeypatch.setattr("faregate.flask.first_prices.get_host", refuse)
    routed.clear()
    ask(app)
    assert routed == ["/report"]


def test_a_rule_that_is_added_later_counts(routed: list[str]) -> None:
    app, _ = make_app()
    assert ask(app)[0][:3] == "402"
    app.url_map.add(app.url_rule_class("/report", endpoint="free", methods={"GET"}))
    routed.clear()
    ask(app)
    assert routed == ["/report"]


def test_a_view_that_is_replaced_later_counts() -> None:
    app, service = make_app()
    assert ask(app)[0][:3] == "402"
    app.view_functions["report"] = lambda: "free"
    service.asked.clear()
    assert ask(app)[0][:3] != "402"
    assert service.asked == []
