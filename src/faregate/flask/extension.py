"""`Faregate`, the extension: it reads the app's config, wraps `wsgi_app`, and puts prices on views.

Also the signal that it sends, and its group of commands.
"""

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, Unpack, cast, overload

import click
from blinker import Namespace
from flask import Blueprint, Flask
from flask.cli import AppGroup

from faregate.checkout.handlers import mark_price
from faregate.core.models import Choose, Offer
from faregate.errors import ConfigurationError
from faregate.events import Event
from faregate.flask.decorators import (
    check_flask_choose,
    check_request,
    check_response,
    make_before_request,
    mark_exempt,
    mark_results,
    wrap_view,
)
from faregate.flask.first_prices import FlaskFirstPrices
from faregate.flask.middleware import NAME, FlaskPaywallMiddleware, watch_exceptions, watch_views
from faregate.flask.price_placement import find_bypass
from faregate.flask.routes import list_routes
from faregate.logs import log
from faregate.offers import OfferOptions, make_offer
from faregate.paywall import Paywall
from faregate.setting_reader import name_variable
from faregate.settings import (
    OTHER_VARIABLES,
    SETTINGS,
    Arguments,
    check_setting_names,
    from_config,
)

View = TypeVar("View", bound=Callable[..., Any])

payment_event = Namespace().signal("payment-event")
"""Sent by a `Paywall` with each of its events, as `event`. A receiver must not block."""


@dataclass(frozen=True)
class SignalObserver:
    """Sends the events of this paywall. Several apps may share one: each event is sent once."""

    paywall: Paywall

    def is_listening(self) -> bool:
        return bool(payment_event.receivers)

    def receive(self, event: Event) -> None:
        # Not `send`: the first receiver that raises would keep the event from the others.
        for receiver in payment_event.receivers_for(self.paywall):
            try:
                receiver(self.paywall, event=event)
            except Exception as error:
                kind = type(event).__name__
                log("events", logging.ERROR, "a receiver of payment_event failed for %s", kind, error=error)


_FUNCTIONS = ("on_event", "payment_page", "payment_body")
_RULES = ("offers", "refuse")
_CHANGEABLE: tuple[type, ...] = (dict, list)
_NAMES = (*SETTINGS, "journal", *_FUNCTIONS, *_RULES)


def name_setting(name: str) -> str:
    """A setting as messages name it."""
    return f"{name_variable(name)} in the app's config"


class AppConfig:
    """The settings in the config of an app. Raises `ConfigurationError`.

    `has_own_paywall`: the extension was given a paywall, and reads the path rules only.
    """

    def __init__(self, app: Flask, has_own_paywall: bool) -> None:
        self._config = cast(dict[str, Any], app.config)
        self._check_setting_names()
        for name in _NAMES:
            self._config.setdefault(name_variable(name), None)
        # Lists and dicts may be changed in place.
        self._read = {
            key: _copy(self._config[key]) for key in map(name_variable, _RULES if has_own_paywall else _NAMES)
        }

    def __getitem__(self, name: str) -> Any:
        return self._config[name_variable(name)]

    @property
    def functions(self) -> dict[str, Any]:
        return {name: self[name] for name in _FUNCTIONS}

    def read_arguments(self) -> Arguments:
        """The arguments of a paywall. Raises `ConfigurationError`."""
        values = {name: self[name] for name in SETTINGS}
        return from_config(values, name_setting)

    def check_unchanged(self) -> None:
        """Raise `ConfigurationError` for a setting that was made or changed after it was read."""
        self._check_setting_names()
        for key, value in self._read.items():
            if self._config.get(key) != value:
                raise ConfigurationError(
                    f"{key} in the app's config was set after the paywall had read it: set it before "
                    "Faregate(app), or before paywall.init_app(app)."
                )

    def _check_setting_names(self) -> None:
        # A misspelt FAREGATE_OFFERS or FAREGATE_REFUSE would leave everything below the prefixes free.
        names = {*map(name_variable, _NAMES), *OTHER_VARIABLES}
        check_setting_names(self._config, names, " in the app's config")


def _copy(value: Any) -> Any:
    return copy(value) if isinstance(value, _CHANGEABLE) else value


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
            journal=config["journal"],
            name_setting=name_setting,
            **config.functions,
            **config.read_arguments(),
        )
        ready.add_observer(SignalObserver(ready))
        offers, refuse = config["offers"], config["refuse"] or ()
        first_prices = FlaskFirstPrices(app)
        middleware = FlaskPaywallMiddleware(app.wsgi_app, ready, offers=offers, refuse=refuse)
        middleware.first_prices = first_prices.find
        middleware.prepare = partial(_prepare, app, config)
        # Set here, because the modules that have them import the middleware.
        middleware.find_bypassed = partial(find_bypass, app)
        middleware.list_routes = partial(list_routes, app)
        middleware.views = app.view_functions
        # The first function before the view, and the last one after it.
        app.url_value_preprocessors.setdefault(None, []).insert(0, partial(check_request, app))
        app.after_request_funcs.setdefault(None, []).insert(0, check_response)
        mark_results(app)
        watch_exceptions(app)
        watch_views(app, check_response)
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

        mark_price(decorate, sold)
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

        The payment is asked for after every `before_request`, also those of nested blueprints: a login there
        answers before anybody pays. A view inside may name the same offer again, not another.
        """
        message = "Say what is sold: paywall.paid_all(blueprint, 'text_summary')."
        _check(group, (Blueprint, Flask), message)
        sold = make_offer(sells, among, limits, message)
        check_flask_choose(sold)
        group.before_request(make_before_request(sold))

    def exempt(self, view: View) -> View:
        """Leave a view out of `paid_all`: it is free."""
        return mark_exempt(view)


def _prepare(app: Flask, config: AppConfig) -> None:
    """Prepare an app that is set up for its first request. Raises `ConfigurationError`."""
    config.check_unchanged()
    watch_exceptions(app)


def _check(value: object, kinds: type | tuple[type, ...], message: str) -> None:
    if not isinstance(value, kinds):
        raise ConfigurationError(message)


class _Commands(AppGroup):
    """`flask faregate`. The commands are loaded at first use: no server needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            from faregate.flask.cli import build_commands

            for command in build_commands():
                self.add_command(command)


COMMANDS: Final = _Commands("faregate", help="Show what this app sells, and finish its payments.")
"""Also an entry point of the package: it says why an app does not start, or that it has no paywall."""
