"""Import an application by `module:attribute`, from the current directory."""

import importlib
import inspect
import sys
import traceback
from contextlib import suppress
from typing import Any

from faregate.cli.command import CommandError
from faregate.errors import ConfigurationError, FaregateError


def load(target: str, directory: str = "", *, factory: bool = False) -> Any:
    """The application that `target` names, such as `shop:app` or `shop.main:shop.app`.

    `directory` is put on the path first; empty, the current one. With `factory` the attribute is called
    for the application. Raises `CommandError` for what is not there, `ConfigurationError` for what raises.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise CommandError(f"{target!r} names no application. Say MODULE:APP, such as shop:app.")
    sys.path.insert(0, directory)
    found = _attribute(_imported(module), attribute, module)
    if factory:
        found, target = _made(found, target), f"What {target} returned"
    if not callable(found):
        raise CommandError(f"{target} is no application but of type {type(found).__name__}.")
    if not factory and inspect.isroutine(found) and not _may_be_called_with(found, 2, 3):
        hint = " Add --factory if it makes one." if _may_be_called_with(found, 0) else ""
        raise CommandError(f"{target} is a function and no application.{hint}")
    return found


def _may_be_called_with(function: Any, *numbers: int) -> bool:
    """WSGI gives two arguments, ASGI three."""
    signature = inspect.signature(function)
    for number in numbers:
        with suppress(TypeError):
            signature.bind(*range(number))
            return True
    return False


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise CommandError(
                f"There is no module {error.name!r} here. Run this where it is, or say --app-dir."
            ) from None
        raise ConfigurationError(_told(f"{module} could not be imported", error)) from error
    except FaregateError:
        raise
    except Exception as error:
        raise ConfigurationError(_told(f"{module} could not be imported", error)) from error


def _attribute(module: Any, attribute: str, name: str) -> Any:
    found = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise CommandError(f"The module {name!r} has no {attribute!r}.") from None
    return found


def _made(factory: Any, target: str) -> Any:
    if not callable(factory):
        raise CommandError(f"{target} cannot be called: leave --factory out.")
    try:
        return factory()
    except FaregateError:
        raise
    except Exception as error:
        raise ConfigurationError(_told(f"{target} made no application", error)) from error


def _told(what: str, error: Exception) -> str:
    """With where it happened, which a sentence without a traceback would not tell."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{what}: {type(error).__name__}: {error}{where}"
