"""`Faregate`, the extension: it reads the app's config, wraps `wsgi_app`, and puts prices on views."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from flask import Blueprint, Flask

from faregate.core.models import Choose, Offer
from faregate.errors import ConfigurationError
from faregate.flask.app_config import AppConfig, spell
from faregate.flask.command_group import COMMANDS
from faregate.flask.decorators import (
    check_flask_choose,
    check_request,
    check_response,
    make_before_request,
    mark_exempt,
    wrap_view,
)
from faregate.flask.middleware import NAME, FlaskPaywallMiddleware
from faregate.flask.placement import find_sold
from faregate.flask.signals import SignalObserver
from faregate.offers import OfferOptions, make_offer
from faregate.paywall import Paywall

View = TypeVar("View", bound=Callable[..., Any])


class Faregate:
    """The Flask extension: one paywall for any number of apps. It keeps no reference to them.

    Settings are read from each app's config, `FAREGATE_API_KEY` and the others of `docs/settings.md`, and
    from the environment where the config says nothing. One that is made later fails every request.
    `FAREGATE_OFFERS` sells everything below a path prefix (prefix to key), `FAREGATE_REFUSE` closes
    prefixes. The middleware and its `paywall` are in `app.extensions["faregate"]`.
    """

    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, paywall: Paywall | None = None) -> None:
        """Put the paywall around the app. A `paywall` that is given is used as it is.

        Raises `ConfigurationError`.
        """
        _check(app, Flask, f"Faregate goes around a Flask app, not around {app!r}.")
        if NAME in app.extensions:
            raise ConfigurationError(
                "This app already has a paywall: call init_app once, or Faregate(app) alone."
            )
        _check(paywall, (Paywall, type(None)), "Write init_app(app, Paywall(...)), or init_app(app) alone.")
        config = AppConfig(app, has_own_paywall=paywall is not None)
        ready = paywall or Paywall(
            journal=config["journal"], spell=spell, **config.functions, **config.read_arguments()
        )
        ready.add_observer(SignalObserver(ready))
        offers, refuse = config["offers"], config["refuse"] or ()
        middleware = FlaskPaywallMiddleware(app.wsgi_app, ready, offers=offers, refuse=refuse)
        middleware.check_config = config.check_unchanged
        middleware.find_sold = partial(find_sold, app)
        middleware.views = app.view_functions
        # The first function before the view, and the last one after it.
        app.url_value_preprocessors.setdefault(None, []).insert(0, check_request)
        app.after_request_funcs.setdefault(None, []).insert(0, check_response)
        app.cli.add_command(COMMANDS)
        app.extensions[NAME] = middleware
        app.wsgi_app = middleware  # type: ignore[method-assign]

    @overload
    def paid(
        self, sells: str, among: None = None, **limits: Unpack[OfferOptions]
    ) -> Callable[[View], View]: ...
    @overload
    def paid(
        self, sells: Choose, among: Sequence[str | Offer], **limits: Unpack[OfferOptions]
    ) -> Callable[[View], View]: ...
    def paid(
        self,
        sells: str | Choose,
        among: Sequence[str | Offer] | None = None,
        **limits: Unpack[OfferOptions],
    ) -> Callable[[View], View]:
        """Sell the response of a view. The view finds its `Payment` in `faregate.flask.payment`.

        `sells` is an integration key or an `acr_` revision id; or a function, plain or async, that gets
        Flask's request and returns one of the names in `among`. Goes on functions, plain or async, below
        `@app.route`; on the methods of a `MethodView`; in the `decorators` of any class-based view. Raises
        `ConfigurationError`, here or on the first call.
        """
        message = "Say what is sold, with parentheses: @paywall.paid('text_summary')."
        sold = make_offer(sells, among, limits, message)
        check_flask_choose(sold)

        def decorate(view: Any = None) -> Any:  # None for a `before_request`, which is called with nothing
            return wrap_view(view, sold)

        return decorate

    @overload
    def paid_all(
        self,
        group: Blueprint | Flask,
        sells: str,
        among: None = None,
        **limits: Unpack[OfferOptions],
    ) -> None: ...
    @overload
    def paid_all(
        self,
        group: Blueprint | Flask,
        sells: Choose,
        among: Sequence[str | Offer],
        **limits: Unpack[OfferOptions],
    ) -> None: ...
    def paid_all(
        self,
        group: Blueprint | Flask,
        sells: str | Choose,
        among: Sequence[str | Offer] | None = None,
        **limits: Unpack[OfferOptions],
    ) -> None:
        """Sell every view of a blueprint, with those nested in it, or of an app; also views added later.

        It is a `before_request` of the group: those registered before it run before it, so put
        authentication first. A view inside may name the same offer again, not another.
        """
        message = "Say what is sold: paywall.paid_all(blueprint, 'text_summary')."
        _check(group, (Blueprint, Flask), message)
        sold = make_offer(sells, among, limits, message)
        check_flask_choose(sold)
        group.before_request(make_before_request(sold))

    def exempt(self, view: View) -> View:
        """Leave a view out of `paid_all`: it is free."""
        return mark_exempt(view)


def _check(value: object, kinds: type | tuple[type, ...], message: str) -> None:
    if not isinstance(value, kinds):
        raise ConfigurationError(message)
