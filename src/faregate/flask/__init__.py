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

from faregate.core.reported_values import Payment
from faregate.flask.decorators import payment
from faregate.flask.extension import Faregate, payment_event
from faregate.flask.routes import list_routes

if TYPE_CHECKING:
    from faregate.flask.testing import PayingClient

__all__ = ["Faregate", "PayingClient", "Payment", "list_routes", "payment", "payment_event"]


_INSTEAD = {
    "paid": "write paywall = Faregate(app), and @paywall.paid('text_summary') on a view",
    "require_payment": "write paywall = Faregate(app), and @paywall.paid('text_summary') on a view",
    "PaywallMiddleware": "Faregate(app) puts the middleware around an app",
    "Paywall": "import it from faregate, and write Faregate().init_app(app, Paywall(...))",
}
"""What to write for names of other adapters."""

if not TYPE_CHECKING:  # type checkers refuse other names

    def __getattr__(name: str) -> Any:
        if name in _INSTEAD:
            # Not an AttributeError, which the import statement replaces by a message of its own.
            raise ImportError(f"faregate.flask has no {name}: {_INSTEAD[name]}.", name=__name__)
        if name != "PayingClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Flask's test client loads click's, and with it a debugger, which no server needs.
        from faregate.flask.testing import PayingClient

        return PayingClient
