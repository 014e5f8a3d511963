"""Copies of a result without its headers, which a cache gives out at an address that is free."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar

import flask
import pytest
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response as PlainResponse
from starlette.testclient import TestClient
from werkzeug.datastructures import EnvironHeaders
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client as WSGIClient
from werkzeug.test import create_environ
from werkzeug.wrappers import Response

from faregate.checkout.copy_detection import RESULTS
from faregate.errors import ConfigurationError
from faregate.wsgi import PaywallMiddleware, require_payment
from tests import django_site
from tests.adapters.flask_app import Seller, paywall
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall

django_site.ready()

from django.http import HttpResponse, StreamingHttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path as django_path  # noqa: E402

import faregate.django  # noqa: E402
import faregate.fastapi  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from faregate.offers import offer  # noqa: E402
from tests.adapters.django_views import PAYWALL, project  # noqa: E402

KIND = "copies of a body"
WELL = b'{"status":"well","since":"today"}'
METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS")
PATHS = ("/sold", "/SOLD", "/sold/", "/free", "/broken", "/page/any/thing", "/none", "/?x=/sold")

Key = Callable[[str, str], str]
KEYS: dict[str, Key] = {
    "path": lambda method, path: path,
    "folded path": lambda method, path: path.rstrip("/").lower(),
    "method": lambda method, path: method,
    "nothing": lambda method, path: "",
}
Give = Callable[[bytes], Any]
GIVE: dict[str, Give] = {
    "whole": lambda body: Response(body),
    "in pieces": lambda body: Response([body[:5], body[5:]]),
    "stream": lambda body: Response(iter([body])),
    "file": lambda body: Response(iter([body]), headers={"Content-Length": str(len(body))}),
    "as an error": lambda body: Response(body, 404),
    "created": lambda body: Response(body, 201),
}


def put_hooks(app: flask.Flask, key: Key, give: Give) -> None:
    """A cache in functions before and after the request."""
    kept: dict[str, bytes] = {}

    @app.before_request
    def look() -> Any:
        body = kept.get(key(flask.request.method, flask.request.path))
        return None if body is None else flask.Response(*_explain(give(body)))

    @app.after_request
    def store(response: Any) -> Any:
        if response.status_code == 200 and flask.request.method == "POST":
            kept.setdefault(key("GET", flask.request.path), response.get_data())
        return response


def _explain(made: Response) -> tuple[Any, int, list[tuple[str, str]]]:
    return made.response, made.status_code, list(made.headers)


def put_aborts(app: flask.Flask, key: Key, give: Give) -> None:
    """The same, that leaves its function by an exception."""
    put_hooks(app, key, give)
    look: Any = app.before_request_funcs[None][0]

    def raise_found() -> None:
        if (made := look()) is not None:
            flask.abort(made)

    app.before_request_funcs[None] = [raise_found]


def put_dispatcher(app: flask.Flask, key: Key, give: Give) -> None:
    """A cache in a subclass that dispatches requests itself."""
    kept: dict[str, bytes] = {}
    dispatch = app.dispatch_request

    def dispatch_request() -> Any:
        found = kept.get(key(flask.request.method, flask.request.path))
        if found is not None:
            return flask.Response(*_explain(give(found)))
        answer = app.make_response(dispatch())
        if answer.status_code == 200 and flask.request.method == "POST":
            kept.setdefault(key("GET", flask.request.path), answer.get_data())
        return answer

    app.dispatch_request = dispatch_request  # type: ignore[method-assign]


def put_middleware(app: flask.Flask, key: Key, give: Give) -> None:
    """A cache in WSGI middleware between the paywall and the app."""
    kept: dict[str, bytes] = {}
    run = app.wsgi_app

    def cache(environ: Any, start_response: Any) -> Any:
        method, place = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        found = kept.get(key(method, place))
        if found is not None:
            return give(found)(environ, start_response)
        statuses: list[str] = []

        def start(status: str, headers: Any, *error: Any) -> Any:
            statuses.append(status)
            return start_response(status, headers, *error)

        body = b"".join(run(environ, start))
        if statuses[-1].startswith("200") and method == "POST":
            kept.setdefault(key("GET", place), body)
        return [body]

    app.wsgi_app = cache  # type: ignore[method-assign]


def put_stale_middleware(app: flask.Flask, key: Key, give: Give) -> None:
    """The same, that asks the app first, and answers in place of its errors."""
    kept: dict[str, bytes] = {}
    run = app.wsgi_app

    def cache(environ: Any, start_response: Any) -> Any:
        method, place = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        answer = Response.from_app(run, environ)
        if answer.status_code == 200 and method == "POST":
            kept.setdefault(key("GET", place), answer.get_data())
        found = kept.get(key(method, place))
        if answer.status_code >= 400 and found is not None:
            answer = give(found)
        return answer(environ, start_response)

    app.wsgi_app = cache  # type: ignore[method-assign]


PLACES = {
    "hooks": put_hooks,
    "aborts": put_aborts,
    "dispatcher": put_dispatcher,
    "middleware": put_middleware,
    "stale middleware": put_stale_middleware,
}
Layer = Callable[[flask.Flask], None]


def compress(app: flask.Flask) -> None:
    """Compress what the app answers, each time with another date."""
    dates = count()

    @app.after_request
    def zip_body(response: Any) -> Any:
        if response.is_sequence and "gzip" in flask.request.headers.get("Accept-Encoding", ""):
            response.set_data(gzip.compress(response.get_data(), mtime=next(dates)))
            response.headers["Content-Encoding"] = "gzip"
        return response


def compress_outside(app: flask.Flask) -> None:
    """The same, in WSGI middleware."""
    run, dates = app.wsgi_app, count()

    def zip_body(environ: Any, start_response: Any) -> Any:
        answer = Response.from_app(run, environ)
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            answer.set_data(gzip.compress(answer.get_data(), mtime=next(dates)))
            answer.headers["Content-Encoding"] = "gzip"
        return answer(environ, start_response)

    app.wsgi_app = zip_body  # type: ignore[method-assign]


def make_shop(
    place: str, key: Key, give: Give, content: Content, layer: Layer | None = None, outer: Layer | None = None
) -> Seller:
    app = flask.Flask("seller")
    if layer is not None:
        layer(app)
    PLACES[place](app, key, give)
    if outer is not None:
        outer(app)
    seller = Seller(app)
    sold = paywall.paid("daily_report")(lambda: content.mark("body"))
    app.add_url_rule("/sold", "sold", sold, methods=["POST"])
    app.add_url_rule("/sold", "form", lambda: "free")
    app.add_url_rule("/free", "free", lambda: "free")
    app.add_url_rule("/broken", "broken", lambda: ("busy", 503))
    app.add_url_rule("/page/<path:rest>", "page", lambda rest: f"free {rest}")
    return seller


def take(seller: Seller, content: Content, **options: Any) -> None:
    for method in METHODS:
        for path in PATHS:
            loot = b""
            with suppress(ConfigurationError):  # which a server answers
                loot = seller.ask(path, method=method, **options).data
            if loot.startswith(b"\x1f\x8b"):
                loot = gzip.decompress(loot)
            found = content.found_in([loot])
            figures.count(KIND, found)
            assert not found, (method, path)


@pytest.mark.parametrize("give", GIVE.values(), ids=GIVE)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("place", PLACES)
def test_a_body_leaves_flask_under_no_key(place: str, key: Key, give: Give) -> None:
    content = Content()
    seller = make_shop(place, key, give, content)
    assert seller.ask("/free").text == "free"
    assert content.mark("body") in seller.buy("/sold", method="POST").text
    take(seller, content)


@pytest.mark.parametrize("layers", [(compress, None), (None, compress_outside)], ids=["inside", "outside"])
@pytest.mark.parametrize("place", PLACES)
def test_nor_does_it_compressed(place: str, layers: tuple[Layer | None, Layer | None]) -> None:
    content = Content()
    seller = make_shop(place, KEYS["path"], GIVE["whole"], content, *layers)
    assert content.mark("body") in seller.buy("/sold", method="POST").text
    take(seller, content)
    take(seller, content, headers={"Accept-Encoding": "gzip"})


def compress_once(app: flask.Flask, key: Key) -> None:
    """Keep what was compressed, as Flask-Compress does, in a function after the request."""
    kept: dict[str, bytes] = {}

    @app.after_request
    def zip_body(response: Any) -> Any:
        if response.status_code == 200:
            name = key("", flask.request.path)
            response.set_data(kept.setdefault(name, gzip.compress(response.get_data())))
            response.headers["Content-Encoding"] = "gzip"
        return response


@pytest.mark.parametrize("key", ["path", "folded path", "nothing"])
def test_nor_in_place_of_what_a_free_view_answers(key: str) -> None:
    content, app = Content(), flask.Flask("seller")
    compress_once(app, KEYS[key])
    seller = Seller(app)
    app.add_url_rule("/free", "free", lambda: "a page that is free for all")
    app.add_url_rule("/sold", "form", lambda: "a form that is free for all")
    sold = paywall.paid("daily_report")(lambda: content.mark("body"))
    app.add_url_rule("/sold", "sold", sold, methods=["POST"])
    bought = seller.buy("/sold", method="POST")
    assert content.mark("body").encode() in gzip.decompress(bought.data)
    take(seller, content)


def test_a_free_view_may_give_what_another_one_sells_compressed() -> None:
    app = flask.Flask("seller")
    compress(app)
    seller = Seller(app)
    seller.sells(lambda: WELL.decode(), "/sold")
    app.add_url_rule("/members", "members", lambda: WELL.decode())
    app.add_url_rule("/free", "free", lambda: "a page that is free for all")
    assert seller.buy("/sold").data == WELL
    for _ in range(2):
        asked = [seller.ask(path, headers={"Accept-Encoding": "gzip"}) for path in ("/members", "/free")]
        assert [gzip.decompress(answer.data) for answer in asked] == [WELL, b"a page that is free for all"]


# What is no copy


def test_middleware_and_functions_before_the_view_answer_for_themselves() -> None:
    """Also with the words of a result, which they said before it was sold."""
    app = flask.Flask("seller")
    own = {"/healthz": WELL, "/static.css": b"a {}", "/metrics": b"up 1"}
    run, words = app.wsgi_app, WELL.decode()

    def answer(environ: Any, start_response: Any) -> Any:
        body = own.get(environ["PATH_INFO"])
        return (run if body is None else Response(body))(environ, start_response)

    app.wsgi_app = answer  # type: ignore[method-assign]
    app.before_request(lambda: words if flask.request.path == "/alive" else None)
    app.register_error_handler(404, lambda _error: ("<app>", 200))
    seller = Seller(app)
    app.add_url_rule("/sold", "sold", paywall.paid("daily_report")(lambda: words), methods=["POST"])
    app.add_url_rule("/members", "members", lambda: words)
    for _ in range(2):
        asked = [seller.ask(path).data for path in (*own, "/alive", "/any/page", "/members")]
        assert asked == [*own.values(), WELL, b"<app>", WELL]
        assert seller.buy("/sold", method="POST").data == WELL


def test_a_view_may_give_what_another_one_sells() -> None:
    app = flask.Flask("seller")
    seller = Seller(app)
    seller.sells(lambda: WELL.decode(), "/sold")
    app.add_url_rule("/members", "members", lambda: WELL.decode())
    assert seller.buy("/sold").data == WELL
    assert seller.ask("/members").data == WELL


@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize("path", ["/none", "/fails", "/aborts"])
def test_an_error_handler_of_flask_is_no_view(path: str, status: int) -> None:
    app, kept = flask.Flask("seller"), list[bytes]()
    seller = Seller(app)

    @app.after_request
    def keep(response: flask.Response) -> flask.Response:
        if flask.request.path == "/sold" and response.status_code == 200:
            kept.append(response.get_data())
        return response

    @app.errorhandler(Exception)
    def answer(_error: Exception) -> Any:
        return flask.Response(kept[0] if kept else b"there is nothing here yet", status)

    @app.get("/fails")
    def fail() -> str:
        raise ZeroDivisionError

    app.add_url_rule("/aborts", "aborts", lambda: flask.abort(418))
    seller.sells(lambda: WELL.decode(), "/sold")
    assert seller.ask(path).status_code == status
    assert seller.buy("/sold").data == WELL
    with suppress(ConfigurationError):
        assert WELL not in seller.ask(path).data


# Django


class Keeping:
    """Stands around the paywall, keeps what was bought, and answers in `process_view`."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self._kept: list[bytes] = []

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        if response.status_code == 200 and request.method == "POST":
            self._kept.append(response.content)
        return response

    def process_view(self, request: Any, *_view: Any) -> Any:
        if not self._kept or request.method == "POST" or "error" in request.path:
            return None
        return self._give(request)

    def process_exception(self, request: Any, _error: Exception) -> Any:
        return self._give(request) if self._kept else None

    def _give(self, request: Any) -> Any:
        (body, *_) = self._kept
        return StreamingHttpResponse(iter([body])) if "stream" in request.GET else HttpResponse(body)


def fail(_request: Any) -> HttpResponse:
    raise LookupError


def test_a_body_leaves_django_by_no_function_of_middleware() -> None:
    content = Content()

    @faregate.django.paid("daily_report")
    def sold(_request: Any) -> HttpResponse:
        return HttpResponse(content.mark("body"))

    def page(request: Any) -> HttpResponse:
        return sold(request) if request.method == "POST" else HttpResponse("free")

    urls = [django_path("sold", page), django_path("free", page), django_path("error", fail)]
    client = Client(raise_request_exception=False)
    with project(*urls, MIDDLEWARE=[f"{__name__}.Keeping", PAYWALL]):
        assert client.get("/free").content == b"free"
        unpaid = client.post("/sold")
        proof = Wallet().pay(unpaid.headers["payment-required"])
        bought = client.post("/sold", headers={"PAYMENT-SIGNATURE": proof})
        assert content.mark("body").encode() in bought.content
        for path in ("/sold", "/free", "/error"):
            for query in ("", "?stream"):
                answer: Any = client.get(f"{path}{query}")
                loot = b""
                with suppress(ConfigurationError):
                    loot = b"".join(answer)
                found = content.found_in([loot])
                figures.count(KIND, found)
                assert not found, (path, query)


class AnswerKeeper:
    """Stands around the paywall, and answers a repeated `Idempotency-Key` in `process_view`."""

    kept: ClassVar[dict[str, HttpResponse]] = {}

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        if response.status_code == 200:
            self.kept[request.headers["Idempotency-Key"]] = response
        return response

    def process_view(self, request: Any, *_view: Any) -> Any:
        kept = self.kept.get(request.headers["Idempotency-Key"])
        if kept is not None:
            kept.status_code = int(request.GET.get("status", "200"))
        return kept


@pytest.mark.parametrize("status", [200, 409, 503])
def test_what_another_worker_released_leaves_django_with_no_status(status: int) -> None:
    content = Content()

    @faregate.django.paid("daily_report")
    def sold(_request: Any) -> HttpResponse:
        return HttpResponse(content.mark("body"))

    def relay(_request: Any) -> HttpResponse:
        return HttpResponse("bought elsewhere", headers={"Faregate-Transaction": "txn_elsewhere"})

    def free(_request: Any) -> HttpResponse:
        return HttpResponse()

    AnswerKeeper.kept.clear()
    client = Client(raise_request_exception=False, headers={"Idempotency-Key": "1"})
    urls = [django_path("sold", sold), django_path("free", free), django_path("relay", relay)]
    with project(*urls, MIDDLEWARE=[f"{__name__}.AnswerKeeper", PAYWALL]):
        proof = Wallet().pay(client.get("/sold").headers["payment-required"])
        bought = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
        assert content.mark("body").encode() in bought.content
        RESULTS.forget()
        for path in ("/sold", "/free"):
            answer: Any = client.get(f"{path}?status={status}")
            found = content.found_in([answer.content, str(answer.headers).encode()])
            figures.count(KIND, found)
            assert not found
            assert "PAYMENT-RESPONSE" not in answer.headers
        assert client.get("/relay", headers={"Idempotency-Key": "2"}).content == b"bought elsewhere"


# A paywall inside another one


def make_inner(content: Content) -> Any:
    sold = offer("daily_report")

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        if environ["PATH_INFO"] == "/sold":
            require_payment(environ, sold)
        start_response("200 OK", [])
        yield content.mark("body").encode() if environ["PATH_INFO"] == "/sold" else b"free"

    return PaywallMiddleware(app, make_paywall())


@pytest.mark.parametrize("keeps", ["body", "response"])
def test_a_stale_copy_between_two_paywalls_is_withheld(keeps: str) -> None:
    content, kept = Content(), list[Response]()
    inner = make_inner(content)

    def stale(environ: Any, start_response: Any) -> Any:
        answer = Response.from_app(inner, environ)
        if environ["PATH_INFO"] == "/sold" and answer.status_code == 200:
            kept.append(Response(answer.get_data()) if keeps == "body" else answer)
        elif answer.status_code == 402 and kept:
            answer = kept[0]
        return answer(environ, start_response)

    front = flask.Flask("front")
    front.wsgi_app = DispatcherMiddleware(front.wsgi_app, {"/inside": stale})  # type: ignore[method-assign]
    seller = Seller(front)
    seller.sells(lambda: "in front", "/front")
    client = WSGIClient(front)
    assert seller.ask("/front").status_code == 402
    assert client.get("/inside/free").data == b"free"
    for _ in range(2):  # each payer gets it, although somebody had it before
        unpaid = Response.from_app(inner, _environ("/sold"))
        proof = Wallet().pay(unpaid.headers["payment-required"])
        bought = client.get("/inside/sold", headers={"PAYMENT-SIGNATURE": proof})
        assert (bought.status_code, bought.text) == (200, content.mark("body"))
        loot = b""
        with suppress(ConfigurationError):
            loot = client.get("/inside/sold").data
        found = content.found_in([loot])
        figures.count(KIND, found)
        assert not found
    assert client.get("/inside/free").data == b"free"


def _environ(path: str) -> dict[str, Any]:
    return create_environ(f"/inside{path}") | {"SCRIPT_NAME": "/inside", "PATH_INFO": path}


class Bridge:
    """A WSGI application that hands to one of ASGI by a client, so that the two paywalls share no request."""

    def __init__(self, app: Any) -> None:
        self._client, self.kept = TestClient(app), list[Response]()
        self.answers_with_kept = False

    def __call__(self, environ: Any, start_response: Any) -> Any:
        headers = {name: value for name, value in EnvironHeaders(environ).items() if name != "Host"}
        given = self._client.get(environ["PATH_INFO"], headers=headers)
        answer = Response(given.content, given.status_code, given.headers.multi_items())
        if self.answers_with_kept:
            answer = self.kept[0]
        elif given.status_code == 200:
            self.kept.append(answer)
        return answer(environ, start_response)


def make_hidden_inner(content: Content) -> FastAPI:
    inner = FastAPI()
    inner.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    for key in ("daily_report", "slow_settlement"):
        dependency = Depends(faregate.fastapi.paid(key))
        inner.get(f"/{key}", dependencies=[dependency])(lambda: content.mark("body"))
    return inner


def make_flask_front(bridge: Bridge) -> WSGIClient:
    front = flask.Flask("front")
    front.config["PROPAGATE_EXCEPTIONS"] = False
    front.wsgi_app = DispatcherMiddleware(front.wsgi_app, {"/inside": bridge})  # type: ignore[method-assign]
    Seller(front).sells(lambda: "in front", "/front")
    return WSGIClient(front)


def make_fastapi_front(bridge: Bridge) -> Any:
    front = FastAPI()

    async def dispatch(request: Any, call_next: Any) -> Any:
        if not request.url.path.startswith("/inside"):
            return await call_next(request)
        environ = create_environ(request.url.path.removeprefix("/inside"), headers=dict(request.headers))
        answer = await run_in_threadpool(Response.from_app, bridge, environ)
        return PlainResponse(answer.get_data(), answer.status_code, dict(answer.headers))

    front.middleware("http")(dispatch)
    front.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    return TestClient(front)


@pytest.mark.parametrize("make_front", [make_flask_front, make_fastapi_front])
def test_a_paywall_behind_a_bridge_answers_for_itself(make_front: Callable[[Bridge], Any]) -> None:
    content = Content()
    bridge = Bridge(make_hidden_inner(content))
    client = make_front(bridge)
    RESULTS.forget()
    for path, expected in (("daily_report", [200] * 4), ("slow_settlement", [202, 202, 200, 200])):
        for _ in range(2):  # the second payer gets the body of the first one's result
            unpaid = client.get(f"/inside/{path}")
            headers = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])}
            answers = [client.get(f"/inside/{path}", headers=headers) for _ in expected]
            assert [answer.status_code for answer in answers] == expected
            assert content.mark("body") in answers[-1].text


@pytest.mark.parametrize("has_payment", [False, True])
@pytest.mark.parametrize("make_front", [make_flask_front, make_fastapi_front])
def test_a_copy_of_what_it_released_is_withheld(
    make_front: Callable[[Bridge], Any], has_payment: bool
) -> None:
    content = Content()
    bridge = Bridge(make_hidden_inner(content))
    client = make_front(bridge)
    path = "/inside/daily_report"
    paid, other = (Wallet().pay(client.get(path).headers["payment-required"]) for _ in range(2))
    assert content.mark("body") in client.get(path, headers={"PAYMENT-SIGNATURE": paid}).text
    bridge.answers_with_kept = True
    loot = b""
    with suppress(ConfigurationError):
        proofs = {"PAYMENT-SIGNATURE": other} if has_payment else {}
        answer = client.get(path, headers=proofs)
        loot = answer.data if make_front is make_flask_front else answer.content
    found = content.found_in([loot])
    figures.count(KIND, found)
    assert not found
