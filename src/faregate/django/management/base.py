"""A mistake in the setup is one sentence in a terminal, not a traceback."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.management import base

from faregate.cli.command import CommandError
from faregate.errors import FaregateError


def as_command_errors(handle: Callable[..., None]) -> Callable[..., None]:
    @wraps(handle)
    def handling(*args: Any, **options: Any) -> None:
        try:
            handle(*args, **options)
        except CommandError as error:
            raise base.CommandError(str(error), returncode=2) from error
        except FaregateError as error:
            raise base.CommandError(str(error)) from error

    return handling
