"""The HTML pages: one set of templates, in which every value is escaped, and one style sheet base.

jinja2 is imported with the first page. A template is read once.
"""

from base64 import b64encode
from functools import cache, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(name: str, /, **values: object) -> str:
    """Render a file of `templates/`: a page, or a style sheet.

    Raises `jinja2.UndefinedError` if a value is missing.
    """
    return _load_environment().get_template(name).render(values)


@lru_cache(maxsize=32)
def render_style(name: str, /, **values: str) -> "Markup":
    """Render a style sheet for a `<style>` element, once for the same values.

    Nothing is escaped in such an element: the caller has checked the values.
    """
    from markupsafe import Markup

    return Markup(render(name, **values))  # noqa: S704


def hash_style(css: str) -> str:
    """Return what allows this style sheet in a content security policy: its hash, in quotes."""
    return f"'sha256-{b64encode(sha256(css.encode()).digest()).decode()}'"


@cache
def _load_environment() -> "Environment":
    # Most sellers' processes never make a page, and none makes one before its first request.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("faregate.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
