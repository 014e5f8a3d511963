"""Functions that settings name, as `module.function`."""

import os
import sys
from importlib import import_module
from typing import Any


def import_function(name: str) -> Any:
    """Import a function, also from the current folder.

    Raises `ImportError`, `AttributeError` or `ValueError`.
    """
    # The folder is searched last, so that it hides nothing that is installed.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, function = name.rpartition(".")
    return getattr(import_module(module), function)
