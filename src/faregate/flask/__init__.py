"""The paywall for Flask: an extension, and `@paywall.paid(...)` on a view.

paywall = Faregate()

@app.get("/summary")
@paywall.paid("text_summary")
def summary():
    payment.report({"input-tokens": 3})
    ...

paywall.init_app(app)
"""

try:
    import flask as _flask
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.flask needs Flask: pip install 'faregate[flask]'", name=error.name
    ) from error
else:
    del _flask

from typing import TYPE_CHECKING, Any

from faregate.core.usage import Payment
from faregate.flask.decorators import payment
from faregate.flask.extension import Faregate
from faregate.flask.routes import list_routes
from faregate.flask.signals import payment_event

if TYPE_CHECKING:
    from faregate.flask.testing import PayingClient

__all__ = ["Faregate", "PayingClient", "Payment", "list_routes", "payment", "payment_event"]


def __getattr__(name: str) -> Any:
    # Flask's test client loads click's, and with it a debugger, which no server needs.
    if name != "PayingClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from faregate.flask.testing import PayingClient

    return PayingClient
