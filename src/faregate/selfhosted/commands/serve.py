"""`faregate service serve`."""

import json
from argparse import Namespace

from faregate.selfhosted.asgi import build_app
from faregate.selfhosted.backends import MakeBackend
from faregate.selfhosted.books import Books, create_tables, open_books, read_command_settings
from faregate.selfhosted.commands.setup import apply_catalog, apply_seller
from faregate.selfhosted.database.keys import create_key
from faregate.selfhosted.log_format import configure_logging
from faregate.selfhosted.payment_lines import build_lines
from faregate.selfhosted.runtime import Runtime
from faregate.selfhosted.server import run
from faregate.selfhosted.settings import Settings
from faregate.service.builtin import builtin_account
from faregate.service.steps import Backend
from faregate.system import get_url, open_listener, system_clock


def run_serve(arguments: Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    return serve(read_command_settings(arguments), as_json=arguments.json)


def serve(settings: Settings, *, as_json: bool = False, make_backend: MakeBackend = Backend) -> int:
    """Serve with these settings; tests that watch steps give `make_backend`."""
    configure_logging(settings.log_format, settings.log_level)
    create_tables(settings)
    lines = build_lines(settings)
    with open_books(settings, pool_size=settings.pool_size) as books:
        test_key = _set_up(books, settings, as_json)
        runtime = Runtime(settings, books, lines, make_backend=make_backend)
        runtime.check_recipients()
        runtime.warn_of_unserved()
        listener = open_listener(settings.host, settings.port)
        url = get_url(listener)
        if as_json:
            print(json.dumps({"url": url, "test_key": test_key}), flush=True)
        else:
            print(_greet(books, settings, url), flush=True)
        try:
            run(build_app(runtime.build_parts()), listener, complete_seconds=settings.complete_seconds)
        finally:
            runtime.end()  # a second Ctrl-C ends uvicorn before it ends the app
    for line in lines.values():
        line.close()
    return 0


def _set_up(books: Books, settings: Settings, as_json: bool) -> str | None:
    """Apply the catalog; for a script that starts with a new database, make a test key and return it."""
    is_new = not books.list_accounts()
    if settings.catalog is not None:
        apply_catalog(books, settings, settings.catalog)
    elif is_new and as_json and settings.payments == "simulated":
        apply_seller(books, builtin_account())
    has_seller = any(one.environment == "test" for one in books.list_accounts())
    if not (is_new and as_json and has_seller and "test" in settings.environments):
        return None
    account = books.find_account("test", None)
    with books.database.write() as connection:
        return create_key(connection, account, system_clock(), name="made at the first start").secret


def _greet(books: Books, settings: Settings, url: str) -> str:
    lines = [f"The Merchant API is served at {url} (stop it with Ctrl-C).", f"Payments: {settings.payments}."]
    if not books.list_accounts():
        lines.append("There is nothing to sell yet: run `faregate service apply catalog.toml`.")
        lines.append("Then make a key for your app: `faregate service key create`.")
    lines.append(f"For your app:\n  export FAREGATE_BASE_URL={url}")
    return "\n".join(lines)
