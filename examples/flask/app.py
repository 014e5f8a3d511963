"""A seller's Flask app: a blueprint that is sold as a whole, a view that reports what it measured.

FAREGATE_BASE_URL=emulator: flask --app app run --port 8000
"""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Flask, abort, request

from faregate.flask import Faregate, payment

REPORTS = {"today": "Sunny, with a chance of receipts.", "tomorrow": "Rain."}

paywall = Faregate()
reports = Blueprint("reports", __name__, url_prefix="/reports")
text = Blueprint("text", __name__)

paywall.paid_all(reports, "daily_report", description="The weather of one day")


@reports.get("/")
@paywall.exempt
def index() -> list[str]:
    """Free: what there is to buy."""
    return sorted(REPORTS)


@reports.get("/<day>")
def report(day: str) -> dict[str, str]:
    """Paid, as all of its blueprint. A day that is not there is a 404, and not charged."""
    if day not in REPORTS:
        abort(404)
    return {"report": REPORTS[day]}


@text.post("/summary")
@paywall.paid("token_meter")
def summary() -> dict[str, str]:
    """Paid, and reports what it measured."""
    words = request.get_data(as_text=True).split()
    payment.report(input_tokens=len(words))
    return {"summary": " ".join(words[:5])}


@text.get("/health")
def health() -> dict[str, str]:
    """Not for sale at all."""
    return {"status": "ok"}


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """The shop behind its paywall; `ConfigurationError` when a setting is missing."""
    app = Flask(__name__)
    app.config.from_mapping(config)
    app.register_blueprint(reports)
    app.register_blueprint(text)
    paywall.init_app(app)
    return app
