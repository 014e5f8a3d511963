"""`Faregate`, the extension: settings from the app's config, the door around `wsgi_app`, prices on views."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast

from flask import Blueprint, Flask

from faregate.errors import Misconfigured
from faregate.flask.commands import commands
from faregate.flask.door import NAME, Door
from faregate.flask.views import exempted, guarded, not_bypassed, selling
from faregate.paywall import Limits, Paywall, offer
from faregate.settings import Arguments

View = TypeVar("View", bound=Callable[..., Any])

_SETTINGS: dict[str, tuple[str, tuple[type, ...]]] = {
    "FAREGATE_API_KEY": ("api_key", (str,)),
    "FAREGATE_BASE_URL": ("base_url", (str,)),
    "FAREGATE_PUBLIC_URL": ("public_url", (str,)),
    "FAREGATE_JOURNAL_KEY": ("journal_keys", (str, list, tuple)),
    "FAREGATE_TRUST_HOST": ("trust_host", (bool,)),
    "FAREGATE_MAX_RESULT_BYTES": ("max_result_bytes", (int,)),
    "FAREGATE_MAX_WORK_SECONDS": ("max_work_seconds", (int, float)),
    "FAREGATE_TIMEOUT": ("timeout", (int, float)),
}


class Faregate:
    """The paywall of any number of apps; it keeps none of them.

    Settings are read from each app's config, `FAREGATE_API_KEY` and the others of `docs/settings.md`, and
    from the environment where the config says nothing. `FAREGATE_OFFERS` sells everything below a path
    prefix (prefix to key), `FAREGATE_REFUSE` closes prefixes. The door and its `paywall` are found in
    `app.extensions["faregate"]`.
    """

    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, paywall: Paywall | None = None) -> None:
        """Put the paywall around the app. A ready `paywall` is taken as it is. Raises `Misconfigured`."""
        if NAME in app.extensions:
            raise Misconfigured(
                "This app has its paywall already: call init_app once, or Faregate(app) alone."
            )
        config = cast(dict[str, Any], app.config)
        for key in (*_SETTINGS, "FAREGATE_JOURNAL", "FAREGATE_OFFERS", "FAREGATE_REFUSE"):
            config.setdefault(key, None)
        ready = paywall or Paywall(journal=config["FAREGATE_JOURNAL"], **_arguments(config))
        offers, refuse = config["FAREGATE_OFFERS"], config["FAREGATE_REFUSE"] or ()
        door = Door(app.wsgi_app, ready, offers=offers, refuse=refuse)
        app.before_request(not_bypassed)
        # Added here, not as an entry point of the package: only apps that sell have the commands.
        app.cli.add_command(commands)
        app.extensions[NAME] = door
        app.wsgi_app = door  # type: ignore[method-assign]

    def require(self, sells: str, **limits: Unpack[Limits]) -> Callable[[View], View]:
        """Sell what a view answers; it finds its `Payment` in `faregate.flask.payment`.

        `sells` is an integration key or an `acr_` revision id. Goes on functions, plain or async, below
        `@app.route`; on the methods of a `MethodView`; in the `decorators` of any class-based view. Raises
        `Misconfigured`, here or on the first call.
        """
        sold = offer(sells, **limits)

        def decorate(view: View) -> View:
            return cast(View, guarded(view, sold))

        return decorate

    def require_all(self, group: Blueprint | Flask, sells: str, **limits: Unpack[Limits]) -> None:
        """Sell every view of a blueprint, with those nested in it, or of an app; also views added later.

        It is a `before_request` of the group: those registered before it run before it, so put
        authentication first. A view inside may name the same offer again, not another.
        """
        group.before_request(selling(offer(sells, **limits)))

    def exempt(self, view: View) -> View:
        """Leave a view out of `require_all`: it is free."""
        return exempted(view)


def _arguments(config: dict[str, Any]) -> Arguments:
    given: dict[str, Any] = {}
    for key, (name, kinds) in _SETTINGS.items():
        value = config[key]
        if value is None:
            continue
        if not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise Misconfigured(f"{key} in the app's config must be {expected}, not {type(value).__name__}.")
        given[name] = value
    return cast(Arguments, given)
