"""What a type checker must make of the Flask extension. Checked, never run."""

from collections.abc import Callable
from typing import assert_type

from flask import Blueprint, Flask, Response
from flask.views import MethodView

from faregate import Paywall
from faregate.flask import Faregate, PayingClient, Payment, list_routes, payment
from faregate.flask import paid as no_such_name  # type: ignore[attr-defined]  # noqa: F401  # pyright: ignore
from faregate.routes import RouteTable

paywall = Faregate()
app = Flask(__name__)
blueprint = Blueprint("weather", __name__)


@app.get("/summary/<name>")
@paywall.paid("text_summary", asset="USDC", max_work_seconds=10)
def summary(name: str, *, short: bool = False) -> Response:
    assert_type(payment, Payment)
    assert_type(payment.transaction_id, str | None)
    payment.report(input_tokens=3)
    return Response(name)


@paywall.paid("text_summary")
async def later(number: int) -> str:
    return str(number)


class Report(MethodView):
    @paywall.paid("daily_report")
    def get(self, day: int) -> str:
        return str(day)


class Reports(MethodView):
    decorators = [paywall.paid("daily_report")]  # noqa: RUF012


@paywall.exempt
def about() -> str:
    return "free"


assert_type(summary("x", short=True), Response)
called: Callable[[int], object] = later
assert_type(Report().get(1), str)
assert_type(about(), str)

paywall.paid_all(blueprint, "daily_report", description="Today's weather")
paywall.paid_all(app, "daily_report")
paywall.init_app(app)
paywall.init_app(app, Paywall())
paywall.init_app(app, paywall=Paywall())
assert_type(Faregate(app), Faregate)
assert_type(list_routes(app), RouteTable)

app.test_client_class = PayingClient
answer = PayingClient(app).get("/summary/x", pay=True)
