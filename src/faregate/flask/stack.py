"""Check what stands around the paywall of an app and would answer in its place."""

import os
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.test import create_environ

from faregate.flask.decorators import list_offers
from faregate.flask.middleware import NAME, FlaskPaywallMiddleware
from faregate.middleware.callables import walk
from faregate.wsgi import Environ

_WHITENOISE = "whitenoise.base.WhiteNoise"


def list_stack_mistakes(app: Flask) -> tuple[str, ...]:
    """What is known to answer outside of the paywall where something is sold. Looked for once."""
    middleware: FlaskPaywallMiddleware = app.extensions[NAME]
    if middleware.stack_mistakes is None:
        middleware.stack_mistakes = tuple(_list_mistakes(app, middleware))
    return middleware.stack_mistakes


def _list_mistakes(app: Flask, middleware: FlaskPaywallMiddleware) -> Iterator[str]:
    for one in takewhile(lambda one: one is not middleware, walk(app.wsgi_app)):
        bases: tuple[type, ...] = type(one).__mro__
        kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in bases}
        urls = _list_urls(one) if _WHITENOISE in kinds else ()
        for url in urls:
            if middleware.path_rules.match(url).protected or find_sold(app, create_environ(url)):
                yield (
                    f"WhiteNoise stands outside of the paywall and has a file at {url}, which is sold or "
                    "refused: the file is free. Take it away, or serve it by a view."
                )


def _list_urls(whitenoise: Any) -> Iterator[str]:
    yield from whitenoise.files
    for root, prefix in whitenoise.directories:  # where it looks anew for each request
        for folder, _, names in os.walk(str(root)):
            below = str(os.path.relpath(folder, root)).replace(os.sep, "/")
            yield from (prefix + (name if below == "." else f"{below}/{name}") for name in names)


def find_sold(app: Flask, environ: Environ) -> str | None:
    """The endpoint that a request is for, if it sells something."""
    try:
        rule, _ = app.url_map.bind_to_environ(environ).match(return_rule=True)
    except HTTPException:
        return None
    return rule.endpoint if list_offers(app, rule, environ["REQUEST_METHOD"]) else None
