"""Reject prefixes in front of frameworks that answer with one handler at paths that no prefix covers.

They look each name of a path up as an attribute of an object: `/about/__self__/reports` is `/reports`, and
so is what punctuation, arguments in a query, or the names of form fields make of another path.
"""

import sys
from typing import Final

from faregate.checkout.path_rules import PathRules
from faregate.errors import ConfigurationError

_PUBLISHERS: Final = {"cherrypy": "CherryPy", "pecan": "Pecan", "tg": "TurboGears", "ZPublisher": "Zope"}
"""By the module that an application of theirs has imported."""


def check_publishers(path_rules: PathRules) -> None:
    """Raise `ConfigurationError` for a prefix other than `/` if one of these frameworks is in use."""
    prefixes = sorted({*path_rules.offers, *path_rules.refused} - {"/"})
    name = next((name for module, name in _PUBLISHERS.items() if module in sys.modules), None)
    if prefixes and name is not None:
        raise ConfigurationError(
            f"{name} answers with one handler at many paths, and {prefixes[0]!r} does not cover them all. "
            "Use the prefix '/', or call require_payment in the handler."
        )
