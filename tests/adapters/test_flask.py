"""Flask's views and blueprints, its error handlers, contexts and streams, and the test client."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    redirect,
    request,
    send_file,
    session,
    stream_with_context,
    url_for,
)
from flask.views import MethodView, View
from flask_cors import CORS

from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.flask import Payment, payment
from faregate.flask.middleware import get_cors_headers
from tests.adapters.flask_app import (
    CONTENT,
    ByDecorators,
    ByMethod,
    Seller,
    content,
    is_sold,
    paywall,
    weather,
)
from tests.servers.http import serving_wsgi
from tests.support.waiting import eventually

ORIGIN = {"Origin": "https://shop.example"}
PREFLIGHT = {
    **ORIGIN,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "payment-signature",
}


pytestmark = pytest.mark.usefixtures("no_logs")


@pytest.fixture
def seller() -> Seller:
    """Not `TESTING`: Flask answers errors itself, as in production."""
    return Seller(Flask("seller"))


# Views


@pytest.mark.parametrize("is_websocket", [True, False])
def test_an_upgrade_of_a_sold_view_is_refused(seller: Seller, is_websocket: bool) -> None:
    """Extensions for websockets send frames over the server's socket, from a view like any other."""
    seller.sells(content(), websocket=is_websocket)
    proof = {} if is_websocket else seller.proof("/paid")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket" if is_websocket else "mine"}
    for headers in (upgrade, upgrade | proof, upgrade | {"PAYMENT-SIGNATURE": "cHJvb2Y="}):
        refused = seller.ask("/paid", headers=headers)
        assert (refused.status_code, refused.get_json()["code"]) == (400, "upgrade_not_sold")
        assert CONTENT not in refused.data
    assert seller.statuses == []
    assert is_websocket or seller.ask("/paid", headers=proof).data == CONTENT


def test_a_view_that_knows_the_payment_from_its_factory_is_sold(seller: Seller) -> None:
    """A factory imports `payment` inside itself: the view closes over the proxy."""
    from faregate.flask import payment as found

    def view() -> bytes:
        assert found.transaction_id
        return CONTENT

    seller.sells(view)
    assert is_sold(seller, "/paid")


def test_the_view_finds_its_payment(seller: Seller) -> None:
    given: list[Any] = []

    @seller.app.get("/meter")
    @paywall.paid("token_meter")
    def meter() -> dict[str, Any]:
        payment.report(input_tokens=3)
        given.append(isinstance(payment, Payment))
        return {"transaction": payment.transaction_id}

    answer = seller.buy("/meter")
    assert answer.get_json()["transaction"].startswith("txn_")
    assert (given, seller.statuses) == ([True], ["succeeded"])


@pytest.mark.parametrize("whole", [False, True])
def test_the_view_does_not_run_unpaid(seller: Seller, whole: bool) -> None:
    def view() -> str:
        seller.runs.append(request.method)
        return ""

    sold: Any = view if whole else paywall.paid("daily_report")(view)
    if whole:
        paywall.paid_all(seller.app, "daily_report")
    seller.app.add_url_rule("/paid", view_func=sold, methods=["GET", "POST", "OPTIONS"])
    for method in ("GET", "HEAD", "POST", "OPTIONS", "PUT"):
        seller.ask("/paid", method=method)
    assert seller.runs == []
    assert (seller.buy("/paid").status_code, seller.runs) == (200, ["GET"])


def test_there_is_no_payment_where_nothing_is_sold(seller: Seller) -> None:
    seller.app.add_url_rule("/open", view_func=lambda: str(payment.transaction_id))
    seller.app.testing = True
    with pytest.raises(ConfigurationError, match="not sold"):
        seller.ask("/open")


def test_a_copied_request_context_has_the_payment(seller: Seller) -> None:
    """A thread's `g` is its own; the request, and with it the payment, is the same."""
    from concurrent.futures import ThreadPoolExecutor

    from flask import copy_current_request_context

    def view() -> str:
        measure = copy_current_request_context(lambda: payment.report({"input-tokens": 1}))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(measure).result()
        return str(payment.values)

    seller.app.add_url_rule("/paid", view_func=paywall.paid("text_summary")(view))
    assert seller.buy("/paid").text == "{'input-tokens': '1'}"


def test_an_async_view_is_sold(seller: Seller) -> None:
    async def view(name: str) -> bytes:
        assert payment.transaction_id
        return name.encode()

    seller.sells(view, "/paid/<name>")
    assert seller.ask("/paid/x").status_code == 402
    assert seller.buy("/paid/x").data == b"x"


class Plain(View):
    decorators = [paywall.paid("daily_report")]  # noqa: RUF012
    methods = ["GET", "POST"]  # noqa: RUF012

    def dispatch_request(self) -> bytes:
        return CONTENT


@pytest.mark.parametrize("view", [ByMethod, ByDecorators, Plain])
def test_class_based_views_are_sold(seller: Seller, view: type[View]) -> None:
    seller.app.add_url_rule("/paid", view_func=view.as_view("paid"))
    assert is_sold(seller, "/paid")
    assert is_sold(seller, "/paid", "POST")
    assert seller.ask("/paid", method="HEAD").status_code == 402
    assert seller.ask("/paid", method="OPTIONS").status_code == 200
    if view is ByMethod:
        assert seller.ask("/paid", method="DELETE").text == "free"


@pytest.mark.parametrize("sold", [ByMethod, Blueprint("x", "x")])
def test_what_cannot_be_wrapped_says_what_to_do(sold: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"decorators = .*paid_all"):
        paywall.paid("daily_report")(sold)


def test_a_price_above_the_route_is_an_error_and_not_free(seller: Seller) -> None:
    @paywall.paid("daily_report")
    @seller.app.get("/paid")
    def paid() -> bytes:
        seller.runs.append("paid")
        return CONTENT

    seller.app.testing = True
    with pytest.raises(ConfigurationError, match=r"put @app\.route above"):
        seller.ask("/paid")
    assert seller.runs == []


def test_without_the_extension_a_view_is_a_clear_error_and_not_free() -> None:
    app = Flask("seller")
    app.add_url_rule("/paid", view_func=paywall.paid("daily_report")(content()))
    answer = app.test_client().get("/paid")
    assert (answer.status_code, CONTENT in answer.data) == (500, False)
    app.testing = True
    with pytest.raises(ConfigurationError, match=r"paywall\.init_app"):
        app.test_client().get("/paid")


def test_two_offers_on_one_view_are_a_mistake(seller: Seller) -> None:
    with pytest.raises(ConfigurationError, match="'text_summary' and as 'daily_report'"):
        paywall.paid("daily_report")(paywall.paid("text_summary")(content()))
    seller.sells(paywall.paid("daily_report")(content()))
    assert is_sold(seller, "/paid")


@pytest.mark.parametrize("place", ["/sold/two", "/sold/<name>"])
def test_two_offers_of_a_prefix_and_a_view_are_an_error_before_a_payment_is_asked_for(place: str) -> None:
    app = Flask("seller")
    app.config["FAREGATE_OFFERS"] = {"/sold": "text_summary"}
    seller = Seller(app)

    @app.get(place)
    @paywall.paid("daily_report")
    def view(name: str = "") -> bytes:
        return CONTENT

    with pytest.raises(ConfigurationError, match="its path is sold as 'text_summary': no payer can buy it"):
        seller.ask("/sold/two")


# Blueprints


def test_a_blueprint_is_sold_with_those_nested_in_it(seller: Seller) -> None:
    outer, _ = weather()
    paywall.paid_all(outer, "daily_report")
    outer.add_url_rule("/later", view_func=content(), endpoint="later")
    seller.app.register_blueprint(outer)
    seller.app.register_blueprint(outer, name="again", url_prefix="/again")
    seller.app.add_url_rule("/from-outside", endpoint="outer.outside", view_func=content())
    for path in ("/view", "/inner/view", "/later", "/again/view", "/again/inner/view", "/from-outside"):
        assert is_sold(seller, path), path
        assert seller.ask(path, method="HEAD").status_code == 402
        assert seller.ask(path, method="OPTIONS").headers["Allow"]
    for path in ("/open", "/inner/open", "/again/inner/open"):
        assert seller.ask(path).text == "open"
    assert seller.ask("/nothing").status_code == 404


def test_an_inner_blueprint_is_sold_alone(seller: Seller) -> None:
    outer, inner = weather()
    paywall.paid_all(inner, "daily_report")
    seller.app.register_blueprint(outer)
    assert is_sold(seller, "/inner/view")
    assert seller.ask("/view").data == CONTENT


def test_a_whole_app_is_sold_but_not_what_it_does_not_have(seller: Seller) -> None:
    seller.app.add_url_rule("/view", view_func=content())
    seller.app.add_url_rule("/open", view_func=paywall.exempt(lambda: "open"), endpoint="open")
    paywall.paid_all(seller.app, "daily_report")
    assert is_sold(seller, "/view")
    assert (seller.ask("/open").text, seller.ask("/nothing").status_code) == ("open", 404)


def test_what_runs_before_a_view_of_a_sold_blueprint_runs_before_its_price(seller: Seller) -> None:
    """Every `before_request` may refuse for nothing; the view is not run unpaid."""
    blueprint = Blueprint("weather", "weather")
    paywall.paid_all(blueprint, "daily_report")

    @seller.app.before_request
    def members_only() -> Any:
        return None if "member" in request.args else ("members only", 401)

    @blueprint.before_request
    def open_only() -> Any:
        return ("closed", 503) if "closed" in request.args else None

    def view() -> bytes:
        seller.runs.append("ran")
        assert payment.transaction_id
        return CONTENT

    blueprint.add_url_rule("/view", view_func=view)
    seller.app.register_blueprint(blueprint)
    assert seller.ask("/view").status_code == 401
    assert seller.ask("/view?member&closed").status_code == 503
    assert seller.ask("/view?member").status_code == 402
    assert seller.runs == []
    assert seller.buy("/view?member").data == CONTENT
    assert len(seller.runs) == 1


def test_a_view_of_a_sold_blueprint_may_name_the_same_offer(seller: Seller) -> None:
    blueprint = Blueprint("weather", "weather")
    paywall.paid_all(blueprint, "daily_report")
    blueprint.add_url_rule("/same", view_func=paywall.paid("daily_report")(content()), endpoint="same")
    blueprint.add_url_rule("/other", view_func=paywall.paid("text_summary")(content()), endpoint="other")
    seller.app.register_blueprint(blueprint)
    assert is_sold(seller, "/same")
    answer = seller.buy("/other")
    assert (answer.status_code, CONTENT in answer.data, seller.statuses[0]) == (500, False, "failed")


def test_a_method_of_a_class_may_be_exempt(seller: Seller) -> None:
    class Mixed(MethodView):
        @paywall.exempt
        def get(self) -> str:
            return "open"

        def post(self) -> bytes:
            return CONTENT

    blueprint = Blueprint("weather", "weather")
    paywall.paid_all(blueprint, "daily_report")
    blueprint.add_url_rule("/mixed", view_func=Mixed.as_view("mixed"))
    seller.app.register_blueprint(blueprint)
    assert seller.ask("/mixed").text == "open"
    assert seller.ask("/mixed", method="HEAD").status_code == 200
    assert is_sold(seller, "/mixed", "POST")


def test_sold_and_exempt_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="both"):
        paywall.exempt(paywall.paid("daily_report")(lambda: ""))
    with pytest.raises(ConfigurationError, match="both"):
        paywall.paid("daily_report")(paywall.exempt(lambda: ""))
    with pytest.raises(ConfigurationError, match="methods"):
        paywall.exempt(ByMethod)


# What is judged is Flask's whole response


@pytest.mark.parametrize("nonsense", [None, object(), (), 7])
def test_nonsense_is_not_charged(seller: Seller, nonsense: Any) -> None:
    seller.sells(lambda: nonsense)
    answer = seller.buy("/paid")
    assert (answer.status_code, "PAYMENT-RESPONSE" in answer.headers) == (500, False)
    assert seller.statuses == ["failed"]


@pytest.mark.parametrize("status", [404, 451, 503])
def test_an_abort_is_not_charged(seller: Seller, status: int) -> None:
    seller.sells(lambda: abort(status))
    assert (seller.buy("/paid").status_code, seller.statuses) == (status, ["failed"])


def test_a_response_that_after_request_spoils_is_not_charged(seller: Seller) -> None:
    @seller.app.after_request
    def spoil(response: Response) -> Response:
        if response.status_code == 200:
            response.status_code = 500
        return response

    seller.sells(content())
    assert (seller.buy("/paid").status_code, seller.statuses) == (500, ["failed"])


def test_an_after_request_that_breaks_on_the_stop_changes_nothing(seller: Seller) -> None:
    @seller.app.after_request
    def picky(response: Response) -> Response:
        assert response.get_data() == CONTENT
        return response

    seller.sells(content())
    seller.app.testing = True
    assert is_sold(seller, "/paid")


def test_an_error_handler_that_answers_200_releases_nothing(seller: Seller) -> None:
    seller.app.register_error_handler(Exception, lambda error: CONTENT + str(error).encode())
    seller.sells(content())
    seller.app.add_url_rule(
        "/unknown", view_func=paywall.paid("no_such_thing")(content()), endpoint="unknown"
    )
    assert is_sold(seller, "/paid")
    answer = seller.ask("/unknown")
    assert (answer.status_code, CONTENT in answer.data) == (502, False)


def test_an_error_that_a_handler_answers_with_200_is_failed_work(seller: Seller) -> None:
    seller.app.register_error_handler(ZeroDivisionError, lambda error: (CONTENT, 200))
    seller.sells(lambda: str(1 // 0))
    assert CONTENT not in seller.buy("/paid").data
    assert seller.statuses == ["failed"]


def test_the_stop_never_leaks(seller: Seller) -> None:
    @seller.app.after_request
    def leak(response: Response) -> Response:
        response.headers["X-Leak"] = "1"
        response.set_cookie("leak", "1")
        response.set_data(CONTENT)
        return response

    seller.sells(content())
    unpaid = seller.ask("/paid")
    assert (unpaid.status_code, CONTENT in unpaid.data) == (402, False)
    assert not {"X-Leak", "Set-Cookie"} & set(unpaid.headers.keys())
    assert seller.buy("/paid").headers["X-Leak"] == "1"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_view_that_ends_the_process_is_reported_first(seller: Seller, error: BaseException) -> None:
    def view() -> str:
        raise error

    seller.sells(view)
    proof = seller.proof("/paid")
    with pytest.raises(type(error)):
        seller.ask("/paid", headers=proof)
    assert seller.statuses == ["failed"]


# What a view may answer with


def test_two_cookies_and_a_session_are_sold(seller: Seller) -> None:
    def view() -> Response:
        session["visits"] = session.get("visits", 0) + 1
        response = Response(CONTENT)
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    seller.sells(view)
    assert "Set-Cookie" not in seller.ask("/paid").headers
    names = [value.partition("=")[0] for value in seller.buy("/paid").headers.getlist("Set-Cookie")]
    assert sorted(names) == ["a", "b", "session"]


def test_a_stream_has_its_request_and_is_sold_whole(seller: Seller) -> None:
    def view() -> Response:
        def chunks() -> Iterator[bytes]:
            yield b"paid "
            yield request.args["rest"].encode()

        return Response(stream_with_context(chunks()))

    seller.sells(view)
    answer = seller.buy("/paid?rest=content")
    assert (answer.data, answer.headers["Content-Length"]) == (CONTENT, "12")


def test_a_stream_that_breaks_off_is_not_charged(seller: Seller) -> None:
    def chunks() -> Iterator[bytes]:
        yield CONTENT
        raise ZeroDivisionError

    seller.sells(lambda: Response(chunks()))
    proof = seller.proof("/paid")
    with pytest.raises(ZeroDivisionError):
        seller.ask("/paid", headers=proof)
    assert seller.statuses == ["failed"]


def test_a_file_is_sold(seller: Seller, tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(CONTENT)
    seller.sells(lambda: send_file(tmp_path / "report"), "/file")
    seller.sells(lambda: send_file(BytesIO(CONTENT), download_name="report"), "/memory", endpoint="memory")
    assert is_sold(seller, "/file")
    assert is_sold(seller, "/memory")


def test_a_redirect_of_the_view_is_sold_and_one_of_the_router_is_free(seller: Seller) -> None:
    seller.app.add_url_rule("/there", endpoint="there", view_func=lambda: "there")
    seller.sells(lambda: redirect(url_for("there")), "/paid/")
    assert seller.ask("/paid").status_code == 308
    assert seller.ask("/paid/").status_code == 402
    answer = seller.buy("/paid/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/there")
    assert "PAYMENT-RESPONSE" in answer.headers
    assert seller.buy("/paid", follow_redirects=True).text == "there"


def test_head_is_paid_and_the_automatic_options_are_free(seller: Seller) -> None:
    seller.sells(content())
    assert seller.ask("/paid", method="HEAD").status_code == 402
    paid = seller.buy("/paid", method="HEAD")
    assert (paid.status_code, paid.data, paid.headers["Content-Length"]) == (200, b"", "12")
    options = seller.ask("/paid", method="OPTIONS")
    assert (options.status_code, set(options.headers["Allow"].split(", "))) == (
        200,
        {"GET", "HEAD", "OPTIONS"},
    )


def test_a_view_of_its_own_for_options_is_not_run(seller: Seller) -> None:
    def view() -> bytes:
        seller.runs.append(request.method)
        return CONTENT

    seller.sells(view, methods=["GET", "OPTIONS"])
    assert (seller.ask("/paid", method="OPTIONS").status_code, seller.runs) == (204, [])


# Contexts and what is closed


def test_contexts_are_torn_down_once_and_answers_closed_once(seller: Seller) -> None:
    @seller.app.teardown_request
    def request_over(_error: BaseException | None) -> None:
        seller.runs.append(f"request, {seller.statuses}")

    @seller.app.teardown_appcontext
    def app_over(_error: BaseException | None) -> None:
        seller.runs.append("app")

    def view() -> Response:
        response = Response(CONTENT)
        response.call_on_close(lambda: seller.runs.append(f"closed, {seller.statuses}"))
        return response

    seller.sells(view)
    proof = seller.proof("/paid")
    seller.runs.clear()
    with serving_wsgi(seller.app) as url:
        assert httpx.get(f"{url}/paid", headers=proof).content == CONTENT
        assert eventually(lambda: len(seller.runs) >= 3)  # it is closed after the payer has everything
    assert seller.runs == ["request, ['authorized']", "app", "closed, ['succeeded']"]


def test_what_is_closed_is_closed_although_nothing_was_released(seller: Seller) -> None:
    def view() -> Response:
        response = Response(CONTENT)
        response.call_on_close(lambda: seller.runs.append("closed"))
        return response

    seller.app.add_url_rule("/late", view_func=paywall.paid("slow_settlement")(view))
    answer = seller.buy("/late")
    assert (answer.status_code, CONTENT in answer.data, seller.runs) == (202, False, ["closed"])


# Over a real socket


@pytest.mark.parametrize("path", ["/prix/%C3%A9t%C3%A9", "//paid", "///paid", "/%70aid", "/paid?x=1"])
def test_no_spelling_of_a_path_is_a_way_around(seller: Seller, path: str) -> None:
    seller.sells(content())
    seller.sells(content(), "/prix/été", endpoint="summer")
    with serving_wsgi(seller.app) as url:
        target = httpx.URL(url).copy_with(raw_path=path.encode())
        unpaid = httpx.get(target, follow_redirects=True)
        proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
        paid = httpx.get(unpaid.url, headers={"PAYMENT-SIGNATURE": proof})
    assert (unpaid.status_code, CONTENT in unpaid.content) == (402, False)
    assert (paid.status_code, paid.content) == (200, CONTENT)


def test_a_large_body_is_read_once_by_the_view(seller: Seller) -> None:
    """20 MiB up and down; who reads first has it (x402's own middleware left the view nothing)."""
    sent = bytes(range(256)) * 4096 * 20

    @seller.app.post("/echo")
    @paywall.paid("daily_report", max_result_bytes=len(sent))
    def echo() -> bytes:
        assert request.content_length == len(sent)
        return request.get_data()

    with serving_wsgi(seller.app) as url:
        unpaid = httpx.post(f"{url}/echo")
        proof = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])}
        answer = httpx.post(f"{url}/echo", content=sent, headers=proof, timeout=60)
    assert answer.status_code == 200
    assert answer.content == sent


def test_a_form_is_read_by_who_comes_first(seller: Seller) -> None:
    @seller.app.before_request
    def first() -> None:
        seller.runs.append(request.form["text"])

    def view() -> str:
        return request.form["text"]

    seller.sells(view, methods=["POST"])
    with serving_wsgi(seller.app) as url:
        unpaid = httpx.post(f"{url}/paid", data={"text": "short"})
        proof = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])}
        answer = httpx.post(f"{url}/paid", data={"text": "short"}, headers=proof)
    assert (answer.text, seller.runs) == ("short", ["short", "short"])


# Browsers


@pytest.mark.parametrize("whole", [False, True])
def test_a_browser_may_pay_and_read(seller: Seller, whole: bool) -> None:
    """What flask-cors allows holds for what is sent in the app's stead; nothing else of the app's travels."""
    CORS(seller.app, origins=[ORIGIN["Origin"]], supports_credentials=True, expose_headers=["X-Own"])
    blueprint = Blueprint("weather", "weather")
    if whole:
        paywall.paid_all(blueprint, "daily_report")
    view = content() if whole else paywall.paid("daily_report")(content())
    blueprint.add_url_rule("/paid", endpoint="paid", view_func=view)
    seller.app.register_blueprint(blueprint)
    preflight = seller.ask("/paid", method="OPTIONS", headers=PREFLIGHT)
    unpaid = seller.ask("/paid", headers=ORIGIN)
    paid = seller.buy("/paid", headers=ORIGIN)
    assert "payment-signature" in preflight.headers["Access-Control-Allow-Headers"].lower()
    for answer in (preflight, unpaid, paid):
        assert answer.headers.getlist("Access-Control-Allow-Origin") == [ORIGIN["Origin"]]
        assert answer.headers.getlist("Access-Control-Allow-Credentials") == ["true"]
    for answer in (unpaid, paid):
        exposed = ", ".join(answer.headers.getlist("Access-Control-Expose-Headers"))
        assert {"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Retry-After"} <= set(exposed.split(", "))
    assert "X-Own" in ", ".join(paid.headers.getlist("Access-Control-Expose-Headers"))
    assert (unpaid.status_code, unpaid.headers["Vary"], paid.data) == (402, "Origin", CONTENT)


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {}])
def test_who_is_not_allowed_may_not_read_it(seller: Seller, headers: dict[str, str]) -> None:
    CORS(seller.app, origins=[ORIGIN["Origin"]])
    seller.sells(content())
    assert "Access-Control-Allow-Origin" not in seller.ask("/paid", headers=headers).headers


@pytest.mark.parametrize("allowed", ["https://other.example", "null", "https://shop.example.evil.example"])
def test_only_a_permission_for_this_origin_travels(allowed: str) -> None:
    said = [("Access-Control-Allow-Origin", allowed), ("X-Own", "1"), ("Set-Cookie", "a=1")]
    assert get_cors_headers(said, ORIGIN["Origin"]) == ()
    everybody = [("access-control-allow-origin", "*"), *said[1:]]
    assert get_cors_headers(everybody, allowed) == (("Access-Control-Allow-Origin", "*"), ("Vary", "Origin"))


# The client that pays


def test_the_client_pays_when_asked_to(seller: Seller) -> None:
    wallet = Wallet()
    seller.sells(lambda: request.get_json()["text"], methods=["POST"])
    client: Any = seller.app.test_client(wallet=wallet)
    assert client.post("/paid", json={"text": "short"}).status_code == 402
    assert client.post("/paid", json={"text": "short"}, pay=True).text == "short"
    assert [one.payer for one in seller.service.iter_transactions()] == [wallet.address]
    assert client.post("/paid", json={"text": "short"}).status_code == 402  # it paid for that request only


def test_the_client_pays_once(seller: Seller) -> None:
    seller.app.add_url_rule("/never", view_func=paywall.paid("failing_settlement")(content()))
    client: Any = seller.app.test_client()
    assert client.get("/never", pay=True).status_code == 202
    assert len(seller.statuses) == 1
