"""Import an application by `module:attribute`, from the current directory."""

import importlib
import inspect
import sys
import traceback
from contextlib import suppress
from typing import Any

from faregate.errors import ConfigurationError, FaregateError


class WrongCall(Exception):
    """The command was called with something that is not there; the message says what."""


def load(target: str, directory: str = "", *, factory: bool = False) -> Any:
    """The application that `target` names, such as `shop:app` or `shop.main:shop.app`.

    `directory` is put on the path first; empty, the current one. With `factory` the attribute is called
    for the application. Raises `WrongCall` for what is not there, and `ConfigurationError` for what raises.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise WrongCall(f"{target!r} names no application. Say MODULE:APP, such as shop:app.")
    sys.path.insert(0, directory)
    found = _attribute(_imported(module), attribute, module)
    if factory:
        return _made(found, target)
    if not callable(found):
        raise WrongCall(f"{target} is no application but of type {type(found).__name__}.")
    if inspect.isroutine(found) and not _may_be_called_with(found, 2, 3):
        hint = " Add --factory if it makes one." if _may_be_called_with(found, 0) else ""
        raise WrongCall(f"{target} is a function and no application.{hint}")
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
            raise WrongCall(
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
            raise WrongCall(f"The module {name!r} has no {attribute!r}.") from None
    return found


def _made(factory: Any, target: str) -> Any:
    if not callable(factory):
        raise WrongCall(f"{target} cannot be called: leave --factory out.")
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
