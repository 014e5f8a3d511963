"""Open what a command of `faregate` works on: an application, or the paywall of the environment."""

import importlib
import inspect
import sys
import traceback
from argparse import Namespace
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from faregate.errors import CommandError, ConfigurationError, FaregateError
from faregate.maintenance.journal import JournalView, get_shared_journal, open_view
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.routes.frameworks import inspect_app, is_mcp_server


def open_routes(arguments: Namespace) -> AbstractContextManager[RouteTable | str]:
    """The routes of the application that the arguments name, or the URL that they name for `check`.

    Raises `CommandError`, `ConfigurationError`.
    """
    if arguments.app.startswith(("http://", "https://")):
        if arguments.selected.name != "check":
            raise CommandError("Only faregate check takes a URL. Name an application, such as shop:app.")
        return nullcontext(str(arguments.app))
    return nullcontext(inspect_app(load_app(arguments.app, arguments.app_dir, factory=arguments.factory)))


@contextmanager
def open_paywall(_arguments: Namespace) -> Generator[Paywall]:
    """The paywall of the environment's settings. Raises `ConfigurationError`."""
    paywall = Paywall()
    try:
        get_shared_journal(paywall)  # this process is not the seller's
        yield paywall
    finally:
        paywall.close()


def open_journal(_arguments: Namespace) -> AbstractContextManager[JournalView]:
    """The journal of the environment's settings, to look into. Raises `ConfigurationError`."""
    return open_view()


def load_app(target: str, directory: str = "", *, factory: bool = False) -> Any:
    """Import the application that `target` names, such as `shop:app` or `shop.main:shop.app`.

    `directory`, by default the current one, is searched first. With `factory` the attribute is called to
    get the application. Raises `CommandError` for what does not exist and `ConfigurationError` for what
    raises.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise CommandError(f"{target!r} does not name an application. Use MODULE:APP, such as shop:app.")
    # First, as `python -m` does: the application's own modules win over installed ones of the same name.
    sys.path.insert(0, directory)
    app = _get_attribute(_import_module(module), attribute, module)
    if factory:
        app, target = _call_factory(app, target), f"What {target} returned"
    if not (callable(app) or is_mcp_server(app)):
        raise CommandError(f"{target} is not an application but of type {type(app).__name__}.")
    # A factory is callable as well, and would fail only when it is served.
    if not factory and inspect.isroutine(app) and not _accepts(app, 2, 3):
        hint = " Add --factory if it returns one." if _accepts(app, 0) else ""
        raise CommandError(f"{target} is a function, not an application.{hint}")
    return app


def _accepts(function: Any, *numbers: int) -> bool:
    """Whether it can be called with one of these numbers of arguments: WSGI passes two, ASGI three."""
    signature = inspect.signature(function)
    for number in numbers:
        with suppress(TypeError):
            signature.bind(*range(number))
            return True
    return False


def _import_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except FaregateError:
        raise
    except Exception as error:
        # A missing module is a wrong call only if it is the named one or its package: the application may
        # fail on an import of its own.
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise CommandError(
                f"There is no module {error.name!r} here. Run this in its directory, or add --app-dir."
            ) from None
        raise ConfigurationError(_describe(f"{name} could not be imported", error)) from error


def _get_attribute(module: Any, attribute: str, name: str) -> Any:
    value = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise CommandError(f"The module {name!r} has no {attribute!r}.") from None
    return value


def _call_factory(factory: Any, target: str) -> Any:
    if not callable(factory):
        raise CommandError(f"{target} cannot be called: leave --factory out.")
    try:
        return factory()
    except FaregateError:
        raise
    except Exception as error:
        raise ConfigurationError(_describe(f"{target} failed", error)) from error


def _describe(failure: str, error: Exception) -> str:
    # The place stands in for the traceback, which is not printed.
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{failure}: {type(error).__name__}: {error}{place}"
